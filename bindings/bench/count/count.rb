# frozen_string_literal: true

# Operations in Ruby, for callgrind: count.rb COUNT; see bindings/budgets. The same as in count.py,
# and Localmemcache's loop: see bindings/bench/README.md.
require "commonhold"
require "localmemcache"

PAIRS = 60_000
PATH = "/dev/shm/commonhold-count-#{Process.pid}"

def key(number)
  [number * 0x9e3779b1 & 0xffffffff].pack("L<")
end

# Runs a block COUNT times, twice, and marks the begin and the end of the second run. The garbage
# collector does not run meanwhile: its work depends on all objects of the process.
def counted(name, keys)
  keys.each { |key| yield key }
  GC.start
  GC.disable
  Process.getpgid(0)
  keys.each { |key| yield key }
  Process.getpgid(0)
  GC.enable
  puts name
end

def pairs(map, prefix, keys)
  PAIRS.times { |number| map[key(number)] = key(number) }
  counted("#{prefix}get", keys) { |key| map[key] }
  counted("#{prefix}set", keys) { |key| map[key] = key }
end

def loops(map, prefix, texts)
  counted("#{prefix}loop", texts) do |text|
    map[text] = text
    map[text]
  end
end

count = Integer(ARGV.fetch(0))
dice = Random.new(7)
keys = Array.new(count) { key(dice.rand(PAIRS)) }
texts = Array.new(count) { dice.rand(10_000).to_s }
Commonhold.open("#{PATH}.hold", delete_on_last_exit: true) do |hold|
  counted("empty", keys) { |key| key }
  pairs(hold.map("map"), "", keys)
  pairs({}, "hash_", keys)
end
begin
  loops(LocalMemCache.new(filename: "#{PATH}.lmc"), "", texts)
  loops({}, "hash_", texts)
ensure
  LocalMemCache.drop(filename: "#{PATH}.lmc", force: true)
end
