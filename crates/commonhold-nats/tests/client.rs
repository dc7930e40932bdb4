//! The servers as another program sees them: the client without the code under test.

use crate::bridge::Pairs;
use async_nats::jetstream::consumer::pull::Config as ConsumerConfig;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, Info, StorageType};
use async_nats::jetstream::{self, Context};
use commonhold_nats::key::KeyStyle;
use futures_util::StreamExt;
use std::future::Future;
use std::time::Duration;
use tokio::runtime::Runtime;

pub struct Client {
    runtime: Runtime,
    pub js: Context,
}

impl Client {
    pub fn connect(servers: &str) -> Client {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let servers: Vec<String> = servers.split(',').map(str::to_owned).collect();
        let js = runtime.block_on(async {
            let connect = async_nats::ConnectOptions::new().retry_on_initial_connect();
            jetstream::new(connect.connect(servers).await.unwrap())
        });
        Client { runtime, js }
    }

    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Tries until it succeeds: a server may be starting, or electing a leader.
    pub fn retry<T, E: std::fmt::Debug, F: Future<Output = Result<T, E>>>(
        &self,
        make: impl Fn() -> F,
    ) -> T {
        let begun = std::time::Instant::now();
        loop {
            match self.wait(make()) {
                Ok(done) => return done,
                Err(error) if begun.elapsed() > crate::server::LONG => panic!("{error:?}"),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Creates a bucket as the client libraries do.
    pub fn create(&self, bucket: &str) {
        self.create_with(bucket, |config| config);
    }

    pub fn create_with(&self, bucket: &str, change: impl Fn(Config) -> Config) {
        self.retry(|| {
            let config = Config {
                name: format!("KV_{bucket}"),
                subjects: vec![format!("$KV.{bucket}.>")],
                max_messages_per_subject: 1,
                storage: StorageType::File,
                num_replicas: 1,
                allow_rollup: true,
                deny_delete: true,
                ..Config::default()
            };
            self.js.create_stream(change(config))
        });
    }

    /// Changes the configuration of a bucket.
    pub fn change(&self, bucket: &str, change: impl Fn(Config) -> Config) {
        self.retry(|| self.js.update_stream(change(self.info(bucket).config)));
    }

    /// Removes messages without a trace: all, or those of one key.
    pub fn purge(&self, bucket: &str, key: Option<&str>) {
        self.wait(async {
            let stream = self.js.get_stream(format!("KV_{bucket}")).await.unwrap();
            match key {
                None => stream.purge().await.unwrap(),
                Some(key) => stream.purge().filter(format!("$KV.{bucket}.{key}")).await.unwrap(),
            };
        });
    }

    /// Removes the messages of a subject.
    pub fn purge_stream(&self, stream: &str, subject: &str) {
        self.wait(async {
            let stream = self.js.get_stream(stream).await.unwrap();
            stream.purge().filter(subject).await.unwrap();
        });
    }

    /// Creates a stream that is no bucket.
    pub fn create_stream(&self, name: &str, subject: &str, change: impl Fn(Config) -> Config) {
        self.retry(|| {
            let (name, subjects) = (name.to_owned(), vec![subject.to_owned()]);
            self.js.create_stream(change(Config { name, subjects, ..Config::default() }))
        });
    }

    /// Publishes to a subject; returns whether the server knew the id already.
    pub fn publish(&self, subject: &str, id: Option<&str>, payload: &[u8]) -> bool {
        let message = PublishMessage::build().payload(payload.to_vec().into());
        let message = id.into_iter().fold(message, PublishMessage::message_id);
        let sent = self.js.send_publish(subject.to_owned(), message);
        self.wait(async { sent.await.unwrap().await.unwrap() }).duplicate
    }

    /// The payloads of a stream, in order.
    pub fn payloads(&self, stream: &str) -> Vec<Vec<u8>> {
        self.retry(|| async {
            let stream = self.js.get_stream(stream).await?;
            let state = stream.cached_info().state.clone();
            let mut payloads = Vec::new();
            for sequence in state.first_sequence..=state.last_sequence {
                if let Ok(message) = stream.get_raw_message(sequence).await {
                    payloads.push(message.payload.to_vec());
                }
            }
            Ok::<_, async_nats::Error>(payloads)
        })
    }

    /// The number of messages of a stream.
    pub fn count(&self, stream: &str) -> u64 {
        self.retry(|| async {
            let stream = self.js.get_stream(stream).await?;
            Ok::<_, async_nats::Error>(stream.cached_info().state.messages)
        })
    }

    pub fn drop_bucket(&self, bucket: &str) {
        self.wait(self.js.delete_stream(format!("KV_{bucket}"))).unwrap();
    }

    pub fn info(&self, bucket: &str) -> Info {
        self.retry(|| async {
            self.js.get_stream(format!("KV_{bucket}")).await?.get_info().await.map_err(Into::into)
                as Result<Info, async_nats::Error>
        })
    }

    /// Sets a key that is written as it is.
    pub fn put(&self, bucket: &str, key: &str, value: &[u8]) -> u64 {
        let sent = self.js.publish(format!("$KV.{bucket}.{key}"), value.to_vec().into());
        self.wait(async { sent.await.unwrap().await.unwrap() }).sequence
    }

    /// Writes a marker: DEL, or PURGE as the client libraries do.
    pub fn mark(&self, bucket: &str, key: &str, operation: &str) {
        let message = PublishMessage::build().header("KV-Operation", operation);
        let message = match operation {
            "PURGE" => message.header("Nats-Rollup", "sub"),
            _ => message,
        };
        let subject = format!("$KV.{bucket}.{key}");
        self.wait(async { self.js.send_publish(subject, message).await.unwrap().await.unwrap() });
    }

    /// The pairs of a bucket, with the keys decoded.
    pub fn pairs(&self, bucket: &str) -> Pairs {
        self.retry(|| self.try_pairs(bucket))
    }

    async fn try_pairs(&self, bucket: &str) -> Result<Pairs, async_nats::Error> {
        let config = ConsumerConfig {
            deliver_policy: DeliverPolicy::LastPerSubject,
            ack_policy: AckPolicy::None,
            filter_subject: format!("$KV.{bucket}.>"),
            ..ConsumerConfig::default()
        };
        let consumer = self.js.create_consumer_on_stream(config, format!("KV_{bucket}")).await?;
        let mut left = consumer.cached_info().num_pending;
        let mut pairs = Pairs::new();
        while left > 0 {
            let mut batch = consumer.fetch().max_messages(1000).messages().await?;
            let before = left;
            while let Some(message) = batch.next().await {
                let message = message?;
                // Others may write meanwhile.
                left = left.saturating_sub(1);
                let key = message.subject.strip_prefix(&format!("$KV.{bucket}.")).unwrap();
                let operation = message.headers.as_ref().and_then(|it| it.get("KV-Operation"));
                if operation.is_none() {
                    pairs.insert(KeyStyle::Escaped.decode(key)?, message.payload.to_vec());
                }
            }
            if left == before {
                break;
            }
        }
        Ok(pairs)
    }
}
