//! A scenario: what each process does, and what is broken.
//!
//! Invariant: a scenario holds no state; the same one may be explored again and again. The models
//! whose scenarios have no more to them call it.

/// `Part` is what a process does: a script of operations or a role.
#[derive(Clone, Debug)]
pub struct Scenario<Part, Break> {
    /// What each process does.
    pub parts: Vec<Part>,
    /// What to get wrong.
    pub broken: Option<Break>,
}

impl<Op: Clone, Break> Scenario<Vec<Op>, Break> {
    /// A sound scenario of scripts.
    #[must_use]
    pub fn scripts(scripts: &[&[Op]]) -> Self {
        Scenario { parts: scripts.iter().map(|script| script.to_vec()).collect(), broken: None }
    }
}

impl<Part: Clone, Break: Copy + PartialEq> Scenario<Part, Break> {
    /// A sound scenario of roles.
    #[must_use]
    pub fn roles(roles: &[Part]) -> Self {
        Scenario { parts: roles.to_vec(), broken: None }
    }

    /// The same scenario with something broken.
    #[must_use]
    pub fn broken(&self, broken: Break) -> Self {
        Scenario { broken: Some(broken), ..self.clone() }
    }

    /// Whether this is what is broken.
    pub(crate) fn breaks(&self, what: Break) -> bool {
        self.broken == Some(what)
    }
}
