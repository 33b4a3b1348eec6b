"""The model of the recorded scenarios of the booking agent."""

from booking_model.answer import answer

__all__ = ["answer"]
