"""The model that the scenarios of the booking agent were recorded with."""

from booking_model.answer import answer

__all__ = ["answer"]
