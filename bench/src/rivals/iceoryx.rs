//! iceoryx2: publish and subscribe by shared memory between processes, without a server.
//!
//! There is one service in each direction. It is set up to lose nothing: there is no overflow, and
//! a publisher retries until there is room. However, this applies only to connected subscribers,
//! and a subscriber connects when it first looks for messages. Earlier messages are kept as far as
//! there is room, and the rest are lost. So all subscribers connect before anything is sent. A
//! subscriber can only poll, as in iceoryx2's own benchmark, and yields the processor occasionally.
//!
//! Its ends serve only the thread that made them, so they are in that thread's local storage. The
//! variant that may move to other threads takes a lock for each message. Its files and its shared
//! memory have the name of the run's directory, by which [`crate::site`] removes those of a killed
//! worker.

use std::{
    cell::RefCell,
    hint,
    ops::Range,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use iceoryx2::{
    node::{Node, NodeBuilder},
    port::{publisher::Publisher, subscriber::Subscriber, update_connections::UpdateConnections},
    prelude::{
        BackpressureStrategy, Config, FileName, LogLevel, Path as Root, PortFactory as _,
        SemanticString, SignalHandlingMode, ipc, set_log_level,
    },
    service::port_factory::publish_subscribe::PortFactory,
};

use crate::{
    messages::{Carrier, Each, Port},
    rival::{Rival, Shape, Sharing},
    rivals::server::Server,
    site,
    workloads::Message,
};

const ROOM: usize = 4096;
/// Looks at an empty buffer before a worker yields the processor.
const LOOKS: u32 = 1000;
const BETWEEN_TRIES: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(20);
const THERE: &str = "there";
const BACK: &str = "back";

/// See the module.
pub struct Iceoryx;

impl Rival for Iceoryx {
    fn name(&self) -> &'static str {
        "iceoryx2"
    }

    fn version(&self) -> Result<String> {
        super::locked_version("iceoryx2")
    }

    fn settings(&self) -> &'static str {
        "publish-subscribe, ipc, buffers of 4096, nothing lost; spinning, a yield after 1000 looks"
    }

    fn sharing(&self) -> Sharing {
        Sharing::Processes
    }

    fn plays(&self, workload: &str) -> bool {
        matches!(workload, "channel" | "broadcast")
    }

    fn prepare(&self, _site: &Path, _shape: &Shape) -> Result<Option<Server>> {
        Ok(None)
    }
}

thread_local! {
    static ENDS: RefCell<Vec<End>> = const { RefCell::new(Vec::new()) };
}

impl Carrier for Iceoryx {
    fn open(&self, site: &Path, shape: &Shape, workers: Range<u64>) -> Result<Vec<Box<dyn Port>>> {
        set_log_level(LogLevel::Error);
        let open = |worker| End::open(site, worker, shape.workers);
        let ends = workers.map(open).collect::<Result<Vec<_>, _>>();
        let ends = ends.map_err(|why| anyhow!("iceoryx2: {why}"))?;
        // The ends connect only when all ends of this process exist, because they wait for each
        // other.
        ends.iter().try_for_each(End::connect)?;
        let keep = |end| -> Box<dyn Port> {
            ENDS.with_borrow_mut(|ends| {
                ends.push(end);
                Box::new(Place(ends.len() - 1))
            })
        };
        Ok(ends.into_iter().map(keep).collect())
    }
}

type Service = PortFactory<ipc::Service, Message, ()>;
/// The error of its calls.
pub type Failure = Box<dyn std::error::Error>;

struct End {
    publisher: Option<Publisher<ipc::Service, Message, ()>>,
    subscriber: Option<Subscriber<ipc::Service, Message, ()>>,
    /// The number of receivers of each message.
    receivers: usize,
    // These end after the objects that were made with them.
    incoming: Service,
    _outgoing: Service,
    _node: Node<ipc::Service>,
}

impl End {
    fn open(site: &Path, worker: u64, workers: u64) -> Result<End, Failure> {
        let both = workers == 2;
        let node = NodeBuilder::new()
            .config(&config(site)?)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()?;
        let (there, back) = (service(&node, THERE)?, service(&node, BACK)?);
        let (outgoing, incoming) = if worker == 0 { (there, back) } else { (back, there) };
        // Without a way back, worker 0 only sends and the others only receive.
        let publisher = (both || worker == 0).then(|| {
            let strategy = BackpressureStrategy::RetryUntilDelivered;
            outgoing.publisher_builder().backpressure_strategy(strategy).create()
        });
        let subscriber =
            (both || worker > 0).then(|| incoming.subscriber_builder().buffer_size(ROOM).create());
        Ok(End {
            publisher: publisher.transpose()?,
            subscriber: subscriber.transpose()?,
            receivers: usize::try_from(workers - 1)?,
            incoming,
            _outgoing: outgoing,
            _node: node,
        })
    }

    /// Waits for the publisher, and connects to it.
    fn connect(&self) -> Result<()> {
        let Some(subscriber) = &self.subscriber else { return Ok(()) };
        let start = Instant::now();
        while self.incoming.dynamic_config().number_of_publishers() == 0 {
            ensure!(start.elapsed() < LIMIT, "iceoryx2: there is no publisher");
            thread::sleep(BETWEEN_TRIES);
        }
        subscriber.update_connections().map_err(|why| anyhow!("iceoryx2: {why}"))
    }

    fn receive(&self, most: usize, each: Each<'_>) -> Result<usize> {
        let subscriber = self.subscriber.as_ref().context("this worker only sends")?;
        let mut looks = 0;
        let mut count = 0;
        while count < most {
            let found = subscriber.receive().map_err(|why| anyhow!("iceoryx2: {why}"))?;
            match found {
                Some(sample) => {
                    each(sample.payload());
                    count += 1;
                }
                None if count > 0 => break,
                None => {
                    looks += 1;
                    if looks % LOOKS == 0 {
                        thread::yield_now();
                    }
                    hint::spin_loop();
                }
            }
        }
        Ok(count)
    }
}

/// Its files and its shared memory have the name of the run's directory.
pub fn config(site: &Path) -> Result<Config, Failure> {
    let mut config = Config::default();
    let root = site.to_str().ok_or("the directory's path is not UTF-8")?;
    config.global.set_root_path(&Root::new(root.as_bytes())?);
    config.global.prefix = FileName::new(site::mark(site).as_bytes())?;
    Ok(config)
}

fn service(node: &Node<ipc::Service>, name: &str) -> Result<Service, Failure> {
    let builder = node.service_builder(&name.try_into()?).publish_subscribe::<Message>();
    let builder = builder.enable_safe_overflow(false).history_size(0);
    let builder = builder.max_publishers(1).max_subscribers(2).max_nodes(4);
    Ok(builder.subscriber_max_buffer_size(ROOM).open_or_create()?)
}

/// The place of this end among the thread's ends.
struct Place(usize);

impl Place {
    fn with<T>(&self, act: impl FnOnce(&End) -> Result<T>) -> Result<T> {
        ENDS.with_borrow(|ends| match ends.get(self.0) {
            Some(end) => act(end),
            None => Err(anyhow!("an end of iceoryx2 serves only the thread that made it")),
        })
    }
}

impl Port for Place {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let message: Message = message.try_into().context("a message of another length")?;
        self.with(|end| {
            let publisher = end.publisher.as_ref().context("this worker only receives")?;
            let sent = publisher.send_copy(message).map_err(|why| anyhow!("iceoryx2: {why}"))?;
            ensure!(sent == end.receivers, "{sent} of {} received a message", end.receivers);
            Ok(())
        })
    }

    fn receive(&mut self, most: usize, each: Each<'_>) -> Result<usize> {
        self.with(|end| end.receive(most, each))
    }

    fn finish(&mut self) -> Result<()> {
        ENDS.with_borrow_mut(|ends| ends.truncate(self.0.min(ends.len())));
        Ok(())
    }
}
