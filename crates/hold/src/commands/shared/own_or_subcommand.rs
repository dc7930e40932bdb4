//! The arguments of a command that does something of its own and also has subcommands.

use clap::{ArgMatches, Command, Error};

/// Its own options, or a subcommand.
#[derive(Debug)]
pub enum OwnOrSubcommand<O, S> {
    Own(Box<O>),
    Subcommand(S),
}

impl<O: clap::FromArgMatches, S: clap::FromArgMatches> clap::FromArgMatches
    for OwnOrSubcommand<O, S>
{
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        match matches.subcommand_name() {
            Some(_) => S::from_arg_matches(matches).map(Self::Subcommand),
            None => O::from_arg_matches(matches).map(|own| Self::Own(Box::new(own))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<O: clap::Args, S: clap::Subcommand> clap::Args for OwnOrSubcommand<O, S> {
    fn augment_args(command: Command) -> Command {
        S::augment_subcommands(O::augment_args(command))
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommand_required(false)
            .arg_required_else_help(true)
            .disable_help_subcommand(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
