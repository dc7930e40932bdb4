//! spdlog's asynchronous logger, in C++: lines go through a queue to a thread that formats and
//! writes them.
//!
//! A small driver next to this file runs the workload, because a benchmark should not need
//! `unsafe`. g++ compiles it when it is first needed, into the directory of this program. It is
//! started on a [`leash`], so that the kernel ends it with its worker. It receives the workload's
//! lines, bursts and pauses, and answers with the times.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{
    leash,
    server::{Server, find},
};
use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    workloads::{
        log::{self, Line},
        tally::Tally,
    },
};

const DRIVER: &str = include_str!("spdlog.cc");
const COMPILER: &str = "g++";
const HEADER: &str = "/usr/include/spdlog/version.h";
/// These select the compiled library, and fmt as a separate library, as Debian's package requires.
const FLAGS: [&str; 7] = [
    "-std=c++17",
    "-O2",
    "-DSPDLOG_SHARED_LIB",
    "-DSPDLOG_COMPILED_LIB",
    "-DSPDLOG_FMT_EXTERNAL",
    "-x",
    "c++",
];
const LIBRARIES: [&str; 3] = ["-lspdlog", "-lfmt", "-pthread"];

/// See the module.
pub struct Spdlog;

impl Rival for Spdlog {
    fn name(&self) -> &'static str {
        "spdlog async"
    }

    fn version(&self) -> Result<String> {
        let header = fs::read_to_string(HEADER).with_context(|| format!("cannot read {HEADER}"))?;
        let part = |name: &str| {
            let line =
                header.lines().find(|line| line.contains(&format!("#define SPDLOG_VER_{name} ")));
            line.and_then(|line| line.split_whitespace().last()).unwrap_or("?").to_owned()
        };
        Ok(["MAJOR", "MINOR", "PATCH"].map(part).join("."))
    }

    fn settings(&self) -> &'static str {
        "async_logger, overflow block, queue of 32768, one thread, basic_file_sink_st, default \
         pattern (time, logger, level, line), -O2"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Threads
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "log"
    }

    fn missing(&self) -> Option<String> {
        let install = "(or run with --install as root)";
        if find(COMPILER).is_none() {
            return Some(format!("{COMPILER} is not installed: apt-get install g++ {install}"));
        }
        if !Path::new(HEADER).exists() {
            return Some(format!(
                "spdlog is not installed: apt-get install libspdlog-dev {install}"
            ));
        }
        leash::missing()
    }

    fn prepare(&self, _site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        compiled()?;
        Ok(None)
    }
}

/// The driver, compiled again if it is older than this program.
fn compiled() -> Result<PathBuf> {
    let ours = std::env::current_exe().context("cannot find this program's own file")?;
    let driver = ours.with_file_name("commonhold-bench-spdlog");
    let time = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
    if time(&driver) <= time(&ours) {
        // Another run may do the same at this moment, so each compiles its own file, and then
        // renames it.
        let own = driver.with_extension(std::process::id().to_string());
        compile(&own)?;
        fs::rename(&own, &driver).context("cannot name the driver")?;
    }
    Ok(driver)
}

fn compile(to: &Path) -> Result<()> {
    let mut compiler = leash::command(COMPILER)
        .args(FLAGS)
        .arg("-")
        .args(LIBRARIES)
        .arg("-o")
        .arg(to)
        .stdin(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {COMPILER}"))?;
    let mut source = compiler.stdin.take().context("the compiler takes no input")?;
    source.write_all(DRIVER.as_bytes()).context("the compiler does not listen")?;
    drop(source);
    let status = compiler.wait().context("cannot wait for the compiler")?;
    ensure!(status.success(), "{COMPILER} cannot compile spdlog's driver: {status}");
    Ok(())
}

impl Carrier for Spdlog {
    fn open(&self, site: &Path, shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        ensure!(workers == (0..shape.workers), "the driver has all writers");
        let writers = shape.workers - 1;
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        ports.extend((0..writers).map(|_| Box::new(Idle) as Box<dyn Port>));
        ports.push(Box::new(Driver::start(site, writers)?));
        Ok(ports)
    }
}

/// Stands for a writer, which is a thread of the driver.
struct Idle;

impl Port for Idle {
    fn play(&mut self, _phase: &str, _lines: u64, _tally: &mut Tally) -> Result<bool> {
        Ok(true)
    }
}

struct Driver {
    child: Child,
    writers: u64,
    // Taken at the end, because closing it is the order to finish.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Driver {
    fn start(site: &Path, writers: u64) -> Result<Driver> {
        let mut child = leash::command(compiled()?)
            .arg(log::file(site))
            .arg(writers.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start spdlog's driver")?;
        let orders = child.stdin.take();
        let answers = child.stdout.take().context("the driver has no output")?;
        Ok(Driver { child, writers, orders, answers: BufReader::new(answers) })
    }

    fn order(&mut self, phase: &str, lines: u64) -> Result<()> {
        let burst = if phase == "burst" { log::BURST } else { 0 };
        let digits = Line::new(phase, 0).digits();
        let pause = log::PAUSE.as_micros();
        let mut order =
            format!("{lines} {burst} {pause} {} {}\n", digits.start(), digits.end()).into_bytes();
        for writer in 0..self.writers {
            order.extend_from_slice(Line::new(phase, writer).text());
        }
        let orders = self.orders.as_mut().context("the driver has finished")?;
        orders.write_all(&order).context("the driver takes no order")
    }
}

impl Port for Driver {
    fn play(&mut self, phase: &str, lines: u64, tally: &mut Tally) -> Result<bool> {
        self.order(phase, lines)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).context("cannot hear the driver")?;
        ensure!(answer.ends_with('\n'), "the driver ended without an answer");
        for time in answer.split_whitespace() {
            tally.record(time.parse().context("the driver's answer cannot be parsed")?);
        }
        tally.operations += lines * self.writers;
        Ok(true)
    }

    fn finish(&mut self) -> Result<()> {
        drop(self.orders.take());
        let status = self.child.wait().context("cannot wait for the driver")?;
        ensure!(status.success(), "the driver ended with {status}");
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
