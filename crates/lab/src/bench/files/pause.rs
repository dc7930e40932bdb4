//! The sleep between requests: a normal distribution, in which negative values become zero.

use std::time::Duration;

/// How long to sleep.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    mean_ns: f64,
    deviation_ns: f64,
}

impl Pause {
    /// `None` if there is no sleep at all.
    pub fn new(mean: Duration, deviation: Duration) -> Option<Pause> {
        let [mean_ns, deviation_ns] = [mean, deviation].map(|time| time.as_nanos() as f64);
        (mean_ns + deviation_ns > 0.0).then_some(Pause { mean_ns, deviation_ns })
    }

    /// The next sleep, in nanoseconds.
    pub fn draw(&self, rng: &mut fastrand::Rng) -> u64 {
        (self.mean_ns + self.deviation_ns * normal(rng)).max(0.0) as u64
    }
}

/// Of mean 0 and deviation 1, after Marsaglia's polar method.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * rng.f64() - 1.0, 2.0 * rng.f64() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn drawn(mean: Duration, deviation: Duration) -> Vec<f64> {
        let pause = Pause::new(mean, deviation).unwrap();
        let mut rng = fastrand::Rng::with_seed(3);
        (0..100_000).map(|_| pause.draw(&mut rng) as f64 / 1e6).collect()
    }

    #[test]
    fn sleeps_have_their_mean_and_deviation() {
        let sleeps = drawn(10 * MS, 2 * MS);
        let count = sleeps.len() as f64;
        let mean = sleeps.iter().sum::<f64>() / count;
        let square = sleeps.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / count;
        assert!((mean - 10.0).abs() < 0.05 && (square.sqrt() - 2.0).abs() < 0.05);
    }

    #[test]
    fn no_sleep_is_less_than_nothing() {
        let sleeps = drawn(MS, 5 * MS);
        let none = sleeps.iter().filter(|s| **s == 0.0).count();
        assert!(none > 30_000 && none < 60_000, "{none}");
        assert!(Pause::new(Duration::ZERO, Duration::ZERO).is_none());
        assert!(drawn(MS, Duration::ZERO).iter().all(|s| *s == 1.0));
    }
}
