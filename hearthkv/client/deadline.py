"""A moment by which something must be over. Pure: the time is passed in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of a clock, in seconds."""

    end_s: float

    @classmethod
    def after(cls, now_s: float, limit_s: float) -> "Deadline":
        """The moment `limit_s` from now."""
        return cls(now_s + limit_s)

    def left_s(self, now_s: float) -> float:
        """Seconds that are left; 0 once it is over."""
        return max(0.0, self.end_s - now_s)

    def wait_s(self, now_s: float, stall_s: float) -> float:
        """Seconds to wait for the next sign of progress: `stall_s`, or what is left if less."""
        return min(self.left_s(now_s), stall_s)
