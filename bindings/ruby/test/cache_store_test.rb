# frozen_string_literal: true

require_relative "helper"
require "active_support"
require "active_support/cache"
require "active_support/core_ext/numeric/time"

# ActiveSupport's own expectations of a store.
class CacheStoreTest < Minitest::Test
  include WithHold

  def setup
    super
    @cache = ActiveSupport::Cache.lookup_store(:commonhold_store, @path, { namespace: "app" })
  end

  def test_reads_and_writes
    assert_nil @cache.read("none")
    assert @cache.write("a", { b: [1, nil] })
    assert_equal({ b: [1, nil] }, @cache.read("a"))
    assert @cache.exist?("a")
    assert @cache.write("nothing", nil)
    assert @cache.exist?("nothing")
    assert @cache.delete("a")
    refute @cache.delete("a")
    refute @cache.exist?("a")
    assert @cache.write("grün ü", "x" * 100_000)
    assert_equal 100_000, @cache.read("grün ü").size
  end

  def test_fetch
    assert_equal 1, @cache.fetch("a") { 1 }
    assert_equal 1, @cache.fetch("a") { flunk }
    assert_equal 2, @cache.fetch("a", force: true) { 2 }
    assert_equal 2, @cache.read("a")
  end

  def test_many
    @cache.write_multi({ "a" => 1, "b" => 2 })
    assert_equal({ "a" => 1, "b" => 2 }, @cache.read_multi("a", "b", "c"))
    assert_equal({ "a" => 1, "d" => "d!" }, @cache.fetch_multi("a", "d") { |name| "#{name}!" })
    assert_equal "d!", @cache.read("d")
    assert_equal 2, @cache.delete_multi(%w[a b none])
  end

  def test_expiry
    @cache.write("soon", 1, expires_in: 0.02)
    @cache.write("later", 1, expires_in: 1.hour)
    await("the expiry") { @cache.read("soon").nil? }
    assert_equal 1, @cache.read("later")
  end

  def test_one_recomputes_while_others_get_the_old_value
    @cache.write("a", "old", expires_in: 0.02, race_condition_ttl: 30)
    sleep(0.05)
    value = @cache.fetch("a", expires_in: 10, race_condition_ttl: 30) do
      assert_equal "old", @cache.fetch("a", race_condition_ttl: 30) { flunk }
      "new"
    end
    assert_equal "new", value
    assert_equal "new", @cache.read("a")
  end

  def test_unless_exist
    assert @cache.write("a", 1, unless_exist: true)
    refute @cache.write("a", 2, unless_exist: true)
    assert_equal 1, @cache.read("a")
  end

  def test_of_two_that_find_it_expired_one_writes
    @cache.write("lock", "old", expires_in: 0.001, race_condition_ttl: 30)
    sleep(0.01)
    other = ActiveSupport::Cache.lookup_store(:commonhold_store, @path, { namespace: "app" })
    meanwhile = -> { assert other.write("lock", "other", unless_exist: true) }
    @cache.define_singleton_method(:load_entry) do |bytes|
      super(bytes).tap { meanwhile&.tap { meanwhile = nil }&.call }
    end
    refute @cache.write("lock", "mine", unless_exist: true)
    assert_equal "other", @cache.read("lock")
  end

  def test_everything_that_expires_goes_by_itself
    @cache.write("a", 1, expires_in: 0.02)
    @cache.write("b", 1, expires_in: 0.02, unless_exist: true)
    @cache.increment("c", 1, expires_in: 0.02)
    await("the expiry") { @cache.map.get_many(%w[app:a app:b app:c]).none? }
  end

  def test_versions
    @cache.write("a", "one", version: 1)
    assert_equal "one", @cache.read("a", version: 1)
    assert_nil @cache.read("a", version: 2)
    @cache.write("a", "one", version: 1)
    assert_empty @cache.read_multi("a", version: 2)
  end

  def test_counters_are_atomic_between_processes
    assert_equal 1, @cache.increment("n")
    assert_equal 6, @cache.increment("n", 5)
    assert_equal 4, @cache.decrement("n", 2)
    workers = Array.new(3) { child { 200.times { @cache.increment("n") } } }
    workers.each { |pid| assert_predicate Process.wait2(pid).last, :success? }
    assert_equal 604, @cache.read("n")
    assert_equal 1, @cache.increment("short", 1, expires_in: 0.02)
    await("the expiry") { @cache.read("short").nil? }
    assert_equal 1, @cache.increment("short")
  end

  def test_deleting_many
    @cache.write_multi({ "fruit/a" => 1, "fruit/b" => 2, "other" => 3 })
    @cache.delete_matched(/fruit/)
    assert_equal({ "other" => 3 }, @cache.read_multi("fruit/a", "fruit/b", "other"))
    @cache.clear
    assert_nil @cache.read("other")
    assert @cache.cleanup
    assert_includes @cache.inspect, "CommonholdStore"
  end

  def test_another_hands_bytes_are_a_miss
    @cache.map["app:a"] = "\x04\bnonsense"
    assert_nil @cache.read("a")
    assert_equal 1, @cache.fetch("a") { 1 }
  end

  def test_too_large_is_not_kept
    small = ActiveSupport::Cache::CommonholdStore.new(@hold, map: "small", max_bytes: 1 << 20, compress: false)
    small.write("a", "old")
    small.write("a", SecureRandom.bytes(8 << 20))
    refute_equal "old", small.read("a")
  end
end
