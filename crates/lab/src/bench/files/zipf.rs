//! Numbers of which few are drawn often: rank `k` with a probability in proportion to `1 / k^s`.
//!
//! Rejection-inversion after Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions" (ACM TOMACS 6, 1996): no table, for any number of ranks and any
//! exponent, in little more than one attempt.

/// A Zipf distribution of ranks from 0 on.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral at both ends of what is drawn from.
    first: f64,
    last: f64,
    /// The distance from a rank within which a point needs no second test.
    near: f64,
}

impl Zipf {
    /// The distribution of `count` ranks; `None` for an exponent of 0, with which all are equally
    /// likely.
    pub fn new(count: usize, exponent: f64) -> Option<Zipf> {
        if exponent <= 0.0 {
            return None;
        }
        let mut zipf = Zipf { count: count as f64, exponent, first: 0.0, last: 0.0, near: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.count + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        Some(zipf)
    }

    /// A rank, less than the count.
    #[inline]
    pub fn draw(&self, rng: &mut fastrand::Rng) -> usize {
        loop {
            let area = self.last + rng.f64() * (self.first - self.last);
            let point = self.inverse(area);
            let rank = (point + 0.5).floor().clamp(1.0, self.count);
            if rank - point <= self.near || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as usize - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// Of the weight, from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        let factor = if power.abs() > 1e-8 { power.exp_m1() / power } else { 1.0 + power / 2.0 };
        factor * log
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.exponent)).max(-1.0);
        let factor = if power.abs() > 1e-8 { power.ln_1p() / power } else { 1.0 - power / 2.0 };
        (factor * area).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_as_frequent_as_their_weights() {
        const DRAWS: usize = 400_000;
        for exponent in [0.5, 0.99, 1.0, 1.4] {
            let zipf = Zipf::new(1000, exponent).unwrap();
            let mut rng = fastrand::Rng::with_seed(7);
            let mut seen = vec![0usize; 1000];
            (0..DRAWS).for_each(|_| seen[zipf.draw(&mut rng)] += 1);
            let weights: Vec<f64> = (1..=1000).map(|k| f64::from(k).powf(-exponent)).collect();
            let all: f64 = weights.iter().sum();
            for rank in [0, 1, 2, 9] {
                let wanted = weights[rank] / all * DRAWS as f64;
                let off = (seen[rank] as f64 - wanted).abs();
                assert!(off < 6.0 * wanted.sqrt(), "{exponent}: rank {rank} {} times", seen[rank]);
            }
        }
    }

    #[test]
    fn one_rank_is_always_drawn() {
        let zipf = Zipf::new(1, 1.1).unwrap();
        let mut rng = fastrand::Rng::with_seed(1);
        assert!((0..1000).all(|_| zipf.draw(&mut rng) == 0));
        assert!(Zipf::new(10, 0.0).is_none());
    }
}
