"""What libraries do once in every run, done once for all: build models, compile patterns, load certificates."""

from __future__ import annotations

import gc
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from . import preload

if TYPE_CHECKING:
    from offbook.providers import first_use
else:  # it is beside this file, under the name of the guest
    from . import first_use

PEM = b"-----BEGIN CERTIFICATE-----"


def used_libraries(modules: list[str]) -> dict[str, Any]:
    """Return what this run has used of these modules, for `warm_up` in another process."""
    return {
        "modules": modules,
        "models": first_use.built_models(set(modules).__contains__),
        "patterns": first_use.compiled_patterns(),
    }


def warm_up(libraries: dict[str, Any]) -> None:
    """Do what a run has done that used these libraries, without the program itself and its requests."""
    load_certificates_late()
    first_use.remember_transforms()
    first_use.remember_urls()
    first_use.build_models(libraries["models"])
    first_use.compile_patterns(libraries["patterns"])


def send_requests(requests: list[tuple[str, str]], url: str) -> str:
    """Send requests of a run, by path and body, once more to the server at `url`.

    Returns what is left of it that a process that forks must not have; empty if nothing.
    """
    before = preload.process_state()
    for path, body in requests:
        first_use.send_again(path, body, partial(_option_of, url + path))
    gc.collect()
    return preload.new_since(before)


def _option_of(url: str, sdk: first_use.Sdk) -> dict[str, str]:
    return {sdk.url_option: url.partition(sdk.root)[0]}


def load_certificates_late() -> None:
    """Let a TLS context read its file of certificates when it is first used: clients make one, and talk to us without.

    That takes longer than all the rest of making a client. A file that is missing or no certificate fails at once.
    """
    ssl = sys.modules.get("ssl")
    if ssl is not None and "load_verify_locations" not in vars(ssl.SSLContext):
        _LateCertificates(ssl.SSLContext).install()


class _LateCertificates:
    def __init__(self, context: Any) -> None:
        self._context, self._real = context, context.load_verify_locations

    def install(self) -> None:
        context, late = self._context, self

        def load_verify_locations(self: Any, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
            if cafile is None or capath is not None or cadata is not None or not _has_certificates(cafile):
                late._real(self, cafile, capath, cadata)
            else:
                vars(self).setdefault("_offbook_late", []).append(cafile)

        context.load_verify_locations = load_verify_locations
        for name in ("_wrap_socket", "_wrap_bio", "cert_store_stats", "get_ca_certs"):
            setattr(context, name, late._after_loading(getattr(context, name)))

    def _after_loading(self, real: Any) -> Any:
        def method(context: Any, *args: Any, **options: Any) -> Any:
            for file in vars(context).pop("_offbook_late", ()):
                self._real(context, file)
            return real(context, *args, **options)

        return method


def _has_certificates(file: Any) -> bool:
    try:
        with open(os.fspath(file), "rb") as opened:
            return PEM in opened.read()
    except (OSError, TypeError):
        return False
