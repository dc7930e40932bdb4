//! iceoryx2's blackboard: values of keys that are fixed when it is created, with one writer.
//!
//! The writer creates it and readers open it. Both use a handle on each value, which is the fastest
//! access. Handles may move to other threads. The node and the service that made them serve only
//! one thread, so they stay in that thread's local storage.

use std::{
    cell::RefCell,
    ops::Range,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use iceoryx2::{
    node::{Node, NodeBuilder},
    port::{reader::EntryHandle, writer::EntryHandleMut},
    prelude::{LogLevel, SignalHandlingMode, ipc, set_log_level},
    service::port_factory::blackboard::PortFactory,
};

use crate::{
    messages::{Carrier, Port},
    rival::{Rival, Shape, Sharing},
    rivals::{
        iceoryx::{Failure, config},
        server::Server,
    },
    workloads::newest::{Few, PLACES, Values},
};

const NAME: &str = "values";
const BETWEEN_TRIES: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(20);

/// See the module.
pub struct Blackboard;

impl Rival for Blackboard {
    fn name(&self) -> &'static str {
        "iceoryx2 blackboard"
    }

    fn version(&self) -> Result<String> {
        super::locked_version("iceoryx2")
    }

    fn settings(&self) -> &'static str {
        "ipc, 16 entries of 8 bytes, a handle on each; the values before the first write are there"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        workload == "newest"
    }

    fn prepare(&self, _site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        Ok(None)
    }
}

type Service = PortFactory<ipc::Service, u64>;

thread_local! {
    /// The services and nodes of this thread, which must end after the handles.
    static KEPT: RefCell<Vec<(Service, Node<ipc::Service>)>> = const { RefCell::new(Vec::new()) };
}

impl Carrier for Blackboard {
    fn open(&self, site: &Path, _shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        set_log_level(LogLevel::Error);
        let open = |worker| -> Result<Box<dyn Port>> {
            let handles = if worker == 0 { writer(site) } else { reader(site) };
            let handles = handles.map_err(|why| anyhow!("iceoryx2: {why}"))?;
            Ok(Box::new(Few(handles)))
        };
        workers.map(open).collect()
    }
}

enum Handles {
    Writer(Vec<EntryHandleMut<ipc::Service, u64, u64>>),
    Reader(Vec<EntryHandle<ipc::Service, u64, u64>>),
    Finished,
}

fn node(site: &Path) -> Result<Node<ipc::Service>, Failure> {
    let builder = NodeBuilder::new().config(&config(site)?);
    Ok(builder.signal_handling_mode(SignalHandlingMode::Disabled).create::<ipc::Service>()?)
}

fn writer(site: &Path) -> Result<Handles, Failure> {
    let node = node(site)?;
    let mut creator = node.service_builder(&NAME.try_into()?).blackboard_creator::<u64>();
    for place in 0..PLACES as u64 {
        creator = creator.add::<u64>(place, 0);
    }
    let service = creator.max_readers(2).max_nodes(4).create()?;
    let writer = service.writer_builder().create()?;
    let handles = (0..PLACES as u64).map(|place| writer.entry::<u64>(&place));
    let handles = handles.collect::<Result<Vec<_>, _>>()?;
    KEPT.with_borrow_mut(|kept| kept.push((service, node)));
    Ok(Handles::Writer(handles))
}

fn reader(site: &Path) -> Result<Handles, Failure> {
    let node = node(site)?;
    let start = Instant::now();
    let service = loop {
        let builder = node.service_builder(&NAME.try_into()?);
        match builder.blackboard_opener::<u64>().open() {
            Ok(service) => break service,
            // The writer, which is another process, has not created it yet.
            Err(_) if start.elapsed() < LIMIT => thread::sleep(BETWEEN_TRIES),
            Err(why) => return Err(why.into()),
        }
    };
    let reader = service.reader_builder().create()?;
    let handles = (0..PLACES as u64).map(|place| reader.entry::<u64>(&place));
    let handles = handles.collect::<Result<Vec<_>, _>>()?;
    KEPT.with_borrow_mut(|kept| kept.push((service, node)));
    Ok(Handles::Reader(handles))
}

impl Values for Handles {
    #[inline]
    fn write(&mut self, place: usize, value: u64) -> Result<()> {
        let Handles::Writer(handles) = self else { return Err(anyhow!("this worker reads")) };
        handles.get(place).context("no such place")?.update_with_copy(value);
        Ok(())
    }

    #[inline]
    fn read(&mut self, place: usize) -> Result<u64> {
        let Handles::Reader(handles) = self else { return Err(anyhow!("this worker writes")) };
        Ok(*handles.get(place).context("no such place")?.get())
    }

    fn finish(&mut self) -> Result<()> {
        *self = Handles::Finished;
        KEPT.with_borrow_mut(Vec::pop);
        Ok(())
    }
}
