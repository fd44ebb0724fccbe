//! How fast a batch goes. Pure.
//!
//! A batch handles at most so many instances a second as it was asked to. It goes slower while the store throttles, and while live work is
//! late: its wakeups wait in the same queue as those of all turns, so a wakeup that comes late says that turns do. Each such step doubles
//! the pause, each other one halves it again.

/// The most instances of one page: a step takes some seconds at most, and its write is one batch.
const MOST_PAGE: u32 = 100;
/// A page of a dry run, which only reads.
pub(super) const DRY_PAGE: usize = 500;
/// A wakeup that comes so much later than it was sent for (ms) has waited in its queue.
const LATE_MS: u64 = 2_000;
/// The first pause of a batch that is slowed down; it doubles up to [`MOST_SLOWED`] times.
const FIRST_PAUSE_MS: u64 = 1_000;
pub(super) const MOST_SLOWED: u32 = 6;

/// How many instances a step handles.
pub(super) fn page_size(rate: u32) -> usize {
    rate.clamp(1, MOST_PAGE) as usize
}

/// What a step has seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// How many instances to handle in a second.
    pub rate: u32,
    /// How many it has handled.
    pub handled: usize,
    /// How long it took, in ms.
    pub took_ms: u64,
    /// How late its wakeup was, in ms.
    pub late_ms: u64,
    /// Whether the store has throttled.
    pub is_throttled: bool,
    /// How much the steps before were slowed down.
    pub slowed: u32,
}

impl Seen {
    /// How long to wait before the next step, in ms, and how much it is slowed down.
    pub(super) fn pause(&self) -> (u64, u32) {
        let slowed = match self.is_throttled || self.late_ms > LATE_MS {
            true => self.slowed.saturating_add(1).min(MOST_SLOWED),
            false => self.slowed.saturating_sub(1),
        };
        let share = (self.handled as u64).saturating_mul(1_000) / u64::from(self.rate.max(1));
        let held = match slowed {
            0 => 0,
            slowed => FIRST_PAUSE_MS << (slowed - 1),
        };
        (share.saturating_sub(self.took_ms).max(held), slowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Seen = Seen {
        rate: 20,
        handled: 20,
        took_ms: 300,
        late_ms: 0,
        is_throttled: false,
        slowed: 0,
    };

    #[test]
    fn the_pause_keeps_the_rate() {
        for (rate, handled, took_ms, pause) in [
            (20, 20, 300, 700),
            (20, 20, 0, 1_000),
            (1, 1, 0, 1_000),
            (200, 50, 0, 250),
            (200, 50, 900, 0),
            (20, 0, 0, 0),
            (0, 1, 0, 1_000),
        ] {
            let seen = Seen {
                rate,
                handled,
                took_ms,
                ..CALM
            };
            assert_eq!(seen.pause(), (pause, 0), "{seen:?}");
        }
        assert_eq!([0, 1, 20, 1_000].map(page_size), [1, 1, 20, 100]);
    }

    #[test]
    fn a_batch_makes_room_while_the_store_throttles_or_turns_are_late_and_recovers() {
        let mut seen = Seen {
            is_throttled: true,
            ..CALM
        };
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let (pause, slowed) = seen.pause();
            pauses.push(pause);
            seen.slowed = slowed;
        }
        assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000, 32_000]);
        seen.is_throttled = false;
        seen.late_ms = LATE_MS + 1;
        assert_eq!(seen.pause(), (32_000, 6), "turns are late");
        seen.late_ms = LATE_MS;
        let mut pauses = Vec::new();
        while seen.slowed > 0 {
            let (pause, slowed) = seen.pause();
            pauses.push(pause);
            seen.slowed = slowed;
        }
        assert_eq!(pauses, [16_000, 8_000, 4_000, 2_000, 1_000, 700]);
    }
}
