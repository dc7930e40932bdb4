# frozen_string_literal: true

# The bindings' benchmark in Ruby: `bench.rb WHAT`, of commonhold, hash, pstore, redis; see
# README.md in this folder.
require "commonhold"
require "localmemcache"
require "socket"
require "tmpdir"

KEYS = Array.new(100_000) { |i| format("key %08d", i) }.freeze
VALUE = ("\7" * 100).b.freeze
BATCH = 32
# The keys and values of Localmemcache's loop.
TEXTS = Array.new(10_000, &:to_s).freeze
OPERATIONS = Integer(ENV.fetch("OPERATIONS", "500000"))

# Each does a number of operations in blocks of `per` of them, and prints nanoseconds for one of
# the blocks.
def timed(name, count)
  GC.start
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  i = 0
  while i < count
    yield
    i += 1
  end
  puts format("%s %.1f", name, (Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - start).fdiv(count))
end

def draw
  @random ||= Random.new(1)
  @random
end

def key
  KEYS[draw.rand(100_000)]
end

# Set, get and batches of anything that has [] and []=.
def pairs(map, many, count)
  KEYS.each { |key| map[key] = VALUE }
  timed("set", count) { map[key] = VALUE }
  timed("get", count) { map[key] }
  timed("get_many", count / BATCH) { map.public_send(many, *Array.new(BATCH) { key }) }
end

# Localmemcache's loop; and as its own script has it, with the digits written in the loop.
def loops(hash, count)
  timed("localmemcache", count) do
    index = TEXTS[draw.rand(10_000)]
    hash[index] = index
    hash[index]
  end
  timed("own_script", count) do
    index = draw.rand(10_000).to_s
    hash[index] = index
    hash[index]
  end
end

def with_commonhold(folder)
  hold = Commonhold.open("#{folder}/bench.hold")
  pairs(hold.map("it"), :values_at, OPERATIONS)
  channel = hold.channel("c", ring_bytes: 1 << 20)
  producer = channel.producer
  consumer = channel.consumer
  timed("send_recv", OPERATIONS) do
    producer.try_send(VALUE)
    consumer.try_recv
  end
  loops(LocalMemCache.new(filename: "#{folder}/loop.lmc"), OPERATIONS)
end

def with_hash(_folder)
  pairs({}, :values_at, OPERATIONS)
  queue = Thread::Queue.new
  timed("send_recv", OPERATIONS) do
    queue.push(VALUE)
    queue.pop
  end
  loops({}, OPERATIONS)
end

# A PStore writes its whole file with every change: a thousandth of the keys, and few operations.
def with_pstore(folder)
  require "pstore"
  store = PStore.new("#{folder}/bench.pstore")
  some = KEYS.first(100)
  store.transaction { some.each { |key| store[key] = VALUE } }
  timed("set", 500) { store.transaction { store[some.sample(random: draw)] = VALUE } }
  timed("get", 500) { store.transaction(true) { store[some.sample(random: draw)] } }
  timed("localmemcache", 500) do
    index = TEXTS[draw.rand(100)]
    store.transaction { store[index] = index }
    store.transaction(true) { store[index] }
  end
end

# Over a unix socket, with a server of its own.
def with_redis(folder)
  require "redis"
  server = spawn("redis-server", "--port", "0", "--unixsocket", "#{folder}/redis", "--save", "", out: File::NULL)
  sleep(0.01) until File.socket?("#{folder}/redis")
  client = Redis.new(path: "#{folder}/redis")
  KEYS.each_slice(1000) { |some| client.mapped_mset(some.to_h { |key| [key, VALUE] }) }
  timed("set", 20_000) { client.set(key, VALUE) }
  timed("get", 20_000) { client.get(key) }
  timed("get_many", 2_000) { client.mget(*Array.new(BATCH) { key }) }
  timed("send_recv", 10_000) do
    client.rpush("list", VALUE)
    client.lpop("list")
  end
  timed("localmemcache", 10_000) do
    index = TEXTS[draw.rand(10_000)]
    client.set(index, index)
    client.get(index)
  end
ensure
  Process.kill(:TERM, server) && Process.wait(server) if server
end

what = ARGV.fetch(0)
Dir.mktmpdir("bindings-bench", "/dev/shm") { |folder| send("with_#{what}", folder) }
