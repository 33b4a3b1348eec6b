"""The codecs by name."""

from offbook.providers import catalog
from offbook.providers.catalog import CatalogProvider
from offbook.vendors import CODECS


def test_every_codec_is_found_by_its_name():
    assert {name: codec.name for name, codec in CODECS.items()} == {name: name for name in CODECS}


def test_every_vendor_speaks_one_of_them():
    vendors = [kind for kind in vars(catalog).values() if isinstance(kind, type) and issubclass(kind, CatalogProvider)]
    assert {kind.vendor_codec.name for kind in vendors if kind is not CatalogProvider} == set(CODECS)
