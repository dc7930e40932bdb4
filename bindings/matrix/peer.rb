# frozen_string_literal: true

# The matrix's peer in Ruby; see README.md in this folder.
require "commonhold"

def hash_of(bytes)
  hash = bytes.each_byte.reduce(0x811c9dc5) { |so_far, byte| ((so_far ^ byte) * 0x01000193) & 0xffffffff }
  format("%08x", hash)
end

def value_of(number, len)
  Array.new(len) { |j| (7 * number + j) & 255 }.pack("C*")
end

def pairs(hold, what, write)
  fixed = { "word" => 4, "fixed" => 24 }[what]
  options = fixed ? { mode: :fixed, key_bytes: 4, value_bytes: fixed } : {}
  options = { mode: :cache, max_entries: 1000, ttl: 3600 } if what == "cache"
  map = hold.map(what, **options)
  key_of = ->(i) { fixed ? [i].pack("L<") : "key #{i}" }
  200.times do |i|
    next unless write

    map[key_of[i]] = value_of(i, fixed || i)
    map.delete?(key_of[i]) if (i % 10).zero?
  end
  200.times do |i|
    value = map[key_of[i]]
    puts value ? "#{i} #{map.uid(key_of[i])} #{hash_of(value)}" : "#{i} none"
  end
end

def list(hold, write)
  list = hold.map("list").list("l")
  list.push("a", "b").unshift("c") if write
  puts list.to_a.join(",")
end

def counter(hold, write)
  map = hold.map("counter")
  puts [-5, 7, 40].map { |by| map.increment("n", write ? by : 0) }.last
end

def queue(hold, write)
  queue = hold.queue("queue", elements: 4, element_bytes: 16, queues: %w[free full])
  3.times do |n|
    element = queue.try_pull(write ? "free" : "full") or break
    element.write((65 + n).chr) if write
    puts element.read(0, 1)
    queue.push(write ? "full" : "free", element)
  end
end

def channel(hold, write)
  channel = hold.channel("channel", ring_bytes: 1 << 16)
  if write
    channel.producer do |producer|
      50.times { |i| puts "#{producer.send(value_of(i, i))} #{hash_of(value_of(i, i))}" }
    end
  else
    consumer = channel.consumer(from: :oldest)
    while (message = consumer.try_recv)
      puts "#{consumer.last_sequence} #{hash_of(message)}"
    end
  end
end

def log(hold, write)
  log = hold.log("log")
  5.times { |i| log.info("line #{i}") } if write
  puts log.dump.map(&:text)
end

def stream(hold, write)
  map = hold.map("stream")
  at = hold.map("at")
  if write
    hold.maps.begin_stream("stream", 1 << 16)
    at["from"] = map.follow.position
    map["a"] = "1"
    map["b"] = "2"
    map.delete?("a")
  end
  follower = map.follow(from: at["from"])
  while (change = follower.try_recv)
    puts [change.code, change.key, change.value].reject { |part| part == "" }.join(" ")
  end
end

def errors(hold, path)
  map = hold.map("errors")
  map["short"] = "ab"
  map["n"] = "1"
  [-> { hold.maps.open("none") }, -> { hold.map("errors", mode: :fixed, key_bytes: 4, value_bytes: 4) },
   -> { map.increment("n") }, -> { hold.map("") }, -> { hold.queues.open("errors") },
   -> { hold.channel("ring", ring_bytes: 5) }, -> { map.list("short") << "x" },
   -> { Commonhold.open(path, create: true) }].each do |wrong|
    wrong.call
    puts 0
  rescue Commonhold::Error => e
    puts e.class::CODE
  end
end

def facts(hold, what, path, write)
  case what
  when "queue", "channel", "log", "stream", "list", "counter" then send(what, hold, write)
  when "errors" then errors(hold, path)
  else pairs(hold, what, write)
  end
end

def storm(hold)
  map = hold.map("storm")
  round = 0
  while true
    map["key #{round % 100}"] = value_of(round, round % 100)
    map.increment("n")
    round += 1
  end
end

def sound(hold)
  map = hold.map("storm")
  5000.times do
    break if map.increment("mine", 0).positive? || map.increment("n", 0) >= 1000

    sleep(0.001)
  end
  map.increment("mine")
  hold.sweep
  problems = hold.check
  puts problems.empty? ? "sound" : problems
end

command, what = ARGV
path = ARGV.last
hold = Commonhold.open(path, create: %w[write storm].include?(command) ? nil : false)
case command
when "storm" then storm(hold)
when "sound" then sound(hold)
else facts(hold, what, path, command == "write")
end
hold.close
