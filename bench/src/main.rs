//! `commonhold-bench`: see the library's documentation and bench/README.md.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use commonhold_bench::{
    full::{self, Full},
    install,
    report::Report,
    rivals, rounds,
    settings::{Command, CommandLine, Format, Settings},
    verdicts, worker, workloads,
};

fn main() -> ExitCode {
    let done = match CommandLine::parse().command {
        Command::Run(settings) => run(&settings),
        Command::Table { file } => table(&file),
        Command::Report(settings) => full::run(&settings).map(drop),
        Command::Goals { file, budgets } => goals(&file, budgets.as_deref()),
        Command::List => list(),
        Command::Install => install::install(),
        Command::Worker => worker::main(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("commonhold-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(settings: &Settings) -> Result<()> {
    let report = rounds::run(settings, &mut || {})?;
    let json = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
    if let Some(file) = &settings.json {
        fs::write(file, format!("{json}\n"))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    match settings.format {
        Format::Table => print!("{}", report.table()),
        Format::Json => println!("{json}"),
    }
    Ok(())
}

fn table(file: &Path) -> Result<()> {
    let json =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let report: Report = serde_json::from_str(&json)
        .with_context(|| format!("{} is not what `run --json` writes", file.display()))?;
    print!("{}", report.table());
    Ok(())
}

fn goals(file: &Path, budgets: Option<&Path>) -> Result<()> {
    let mut full = Full::read(file)?;
    if let Some(budgets) = budgets {
        let text = fs::read_to_string(budgets)
            .with_context(|| format!("cannot read {}", budgets.display()))?;
        full.instructions = full::counted(&text);
    }
    print!("{}", verdicts::table(&full));
    Ok(())
}

fn list() -> Result<()> {
    for rival in rivals::all() {
        let plays = workloads::names().into_iter().filter(|workload| rival.plays(workload));
        let plays: Vec<_> = plays.collect();
        println!(
            "{} ({}): {:?}, {}",
            rival.name(),
            plays.join(", "),
            rival.sharing(),
            rival.settings()
        );
        match rival.missing() {
            None => println!("    {}", rival.version()?),
            Some(why) => println!("    CANNOT RUN HERE: {why}"),
        }
    }
    Ok(())
}
