# frozen_string_literal: true

require_relative "helper"

class ContractMapTest < Minitest::Test
  include WithHold

  def setup
    super
    @map = @hold.map("m")
  end

  def test_looks_like_a_hash
    assert_nil @map["a"]
    @map["a"] = "1"
    @map.store("b", "2")
    assert_equal %w[1 2], [@map["a"], @map["b"]]
    assert @map.key?("a") && @map.include?("b") && !@map.key?("c")
    assert_equal 2, @map.size
    assert_equal({ "a" => "1", "b" => "2" }, @map.to_h)
    assert_equal [%w[a 1], %w[b 2]], @map.sort
    assert_equal %w[a b], @map.keys.sort
    assert_equal %w[1 2], @map.values.sort
    assert_equal "1", @map.delete("a")
    assert_nil @map.delete("a")
    assert @map.delete?("b")
    assert_predicate @map, :empty?
  end

  def test_more_of_a_hash
    pairs = (0...100).to_h { |i| ["key #{i}", (i % 10).to_s] }
    @map.set_many(pairs)
    is_seven = proc { |_key, value| value == "7" }
    assert_equal pairs.select(&is_seven), @map.select(&is_seven)
    assert_equal pairs.select(&is_seven), @map.filter(&is_seven)
    assert_equal pairs.reject(&is_seven), @map.reject(&is_seven)
    assert_equal pairs.transform_values(&:to_i), @map.transform_values(&:to_i)
    assert @map.value?("7") && @map.has_value?("0") && !@map.value?("10")
    assert_equal "7", @map[@map.key("7")]
    assert_nil @map.key("none")
    assert_equal %w[1 2], @map.fetch_values("key 1", "key 2")
    assert_equal %w[1 none!], @map.fetch_values("key 1", "none") { |key| "#{key}!" }
    assert_raises(KeyError) { @map.fetch_values("key 1", "none") }
    assert(@map.any? { |key, value| key == "key 7" && value == "7" })
    assert_equal 10, @map.count(&is_seven)
    assert_equal pairs, (@map.each_with_object({}) { |(key, value), all| all[key] = value })
    assert_equal 100, @map.select.size
    assert_same @map, @map.delete_if(&is_seven)
    assert_equal pairs.reject(&is_seven), @map.to_h
    assert_same @map, @map.keep_if { |_key, value| value < "3" }
    assert_equal 30, @map.size
    @map.delete_if { |key, _value| @map[key] = "changed meanwhile" }
    assert_equal ["changed meanwhile"], @map.values.uniq
  end

  def test_an_iteration_is_resumed_at_its_cursor
    pairs = (0...5000).to_h { |i| ["key #{i}", i.to_s] }
    @map.set_many(pairs)
    walk = @map.pairs
    seen = Array.new(1000) { walk.next }
    seen << walk.next until walk.at_cursor?
    cursor = walk.cursor
    walk.close
    assert_raises(Commonhold::ClosedError) { walk.next }
    rest = @hold.map("m").pairs(cursor: cursor).to_a
    assert_equal pairs.to_a.sort, (seen + rest).sort
    assert_child { @map.pairs(cursor: cursor).to_a == rest }
    assert_nil @map.pairs.tap { |all| assert_equal 5000, all.count }.next
    assert_raises(ArgumentError) { @map.pairs(cursor: -1) }
    assert_raises(NoMethodError) { Commonhold::Pairs.new }
  end

  def test_fetch
    @map["a"] = "1"
    assert_equal "1", @map.fetch("a")
    assert_equal "?", @map.fetch("b", "?")
    assert_equal "b!", @map.fetch("b") { |key| "#{key}!" }
    error = assert_raises(KeyError) { @map.fetch("b") }
    assert_equal "b", error.key
    assert_equal "new", @map.fetch_or_add("c") { "new" }
    assert_equal "new", @map.fetch_or_add("c") { flunk }
  end

  def test_any_bytes_and_any_length
    all = (0..255).to_a.pack("C*")
    @map[all] = "\0\xff\0".b
    assert_equal "\0\xff\0".b, @map[all]
    @map[""] = ""
    assert_equal "", @map[""]
    [511, 512, 513, 1 << 20].each do |len|
      value = "x" * len
      @map["long"] = value
      assert_equal value, @map["long"]
    end
    assert_equal Encoding::BINARY, @map["long"].encoding
    assert_equal "grün", @hold.map("m", encoding: "UTF-8").tap { |map| map["g"] = "grün" }["g"]
  end

  def test_add_replace_compare_exchange
    assert @map.add("k", "1")
    refute @map.add("k", "2")
    assert @map.replace("k", "3")
    refute @map.replace("l", "3")
    assert @map.compare_exchange("k", "3", "4")
    refute @map.compare_exchange("k", "3", "5")
    assert @map.compare_exchange("l", nil, "1")
    assert @map.compare_exchange("l", "1", nil)
    assert_raises(Commonhold::MismatchError) { @map.compare_exchange("l", nil, "1", ttl: 1) }
    assert_raises(ArgumentError) { @map.compare_exchange("l", nil, "1", ttl: -1) }
    refute @map.key?("l")
  end

  def test_update
    assert_equal "1", @map.update("k") { |old| old.nil? ? "1" : flunk }
    assert_equal "11", @map.update("k") { |old| old + "1" }
    assert_nil @map.update("k") { nil }
    refute @map.key?("k")
    @map["k"] = "kept"
    assert_raises(ZeroDivisionError) { @map.update("k") { 1 / 0 } }
    assert_raises(StopIteration) { @map.update("k") { raise StopIteration } }
    assert_raises(TypeError) { @map.update("k") { 7 } }
    assert_equal "kept", @map["k"]
  end

  def test_increment
    assert_equal 1, @map.increment("n")
    assert_equal(-4, @map.increment("n", -5))
    assert_equal(-4, @map["n"].unpack1("q<"))
    @map["text"] = "x"
    assert_raises(Commonhold::MismatchError) { @map.increment("text") }
    assert_raises(RangeError) { @map.increment("n", 1 << 70) }
  end

  def test_a_pair_is_found_again
    pair = @map.pair("12345678")
    assert_nil pair.get
    assert_equal [1, -4], [pair.increment, pair.increment(-5)]
    assert_equal(-3, @map.increment("12345678"))
    assert_equal(-3, pair.get.unpack1("q<"))
    assert_same pair, pair.set("text")
    assert_equal "text", @map["12345678"]
    assert_raises(Commonhold::MismatchError) { pair.increment }
    @map.delete("12345678")
    assert_nil pair.get
    (0...2000).each { |i| @map["other #{i}"] = "1" }
    pair.set("x" * 10_000)
    assert_equal "x" * 10_000, pair.get
    pair.close
    assert_raises(Commonhold::ClosedError) { pair.get }
  end

  def test_batches
    pairs = (0...1000).to_h { |i| ["key #{i}", "value #{i}"] }
    assert_same @map, @map.set_many(pairs)
    assert_equal pairs.values, @map.get_many(pairs.keys)
    assert_equal ["value 7", nil], @map.values_at("key 7", "none")
    assert_equal({ "key 1" => "value 1" }, @map.slice("key 1", "none"))
    assert_equal [], @map.get_many([])
    assert_equal 1000, @map.clear
    assert_raises(TypeError) { @map.get_many(["a", 1]) }
    assert_raises(TypeError) { @map.set_many({ "a" => nil }) }
  end

  def test_uids
    @map["a"] = "1"
    uid = @map.uid("a")
    assert_equal %w[a 1], @map.get_uid(uid)
    assert @map.set_uid(uid, "a", "2")
    assert_equal "2", @map["a"]
    refute @map.set_uid(uid, "b", "2")
    assert @map.delete_uid(uid, "a")
    assert_nil @map.uid("a")
    assert_nil @map.get_uid(uid)
    @map.increment("n")
    assert_equal 3, @map.increment_uid(@map.uid("n"), "n", 2)
    @map["c"] = "1"
    uid = @map.uid("c")
    refute @map.compare_exchange_uid(uid, "c", "2", "3")
    assert @map.compare_exchange_uid(uid, "c", "1", "2")
    assert @map.update_uid(uid, "c") { |old| old + "!" }
    assert_equal "2!", @map["c"]
    refute(@map.update_uid(uid, "d") { flunk })
    assert_nil @map.take_uid(uid, "d")
    assert_equal "2!", @map.take_uid(uid, "c")
    refute @map.key?("c")
    refute @map.compare_exchange_uid(uid, "c", "2!", "3")
    refute(@map.update_uid(uid, "c") { flunk })
  end

  def test_walks
    @map.set_many((0...300).map { |i| [i.to_s, "v"] })
    assert_equal 300, @map.each.size
    assert_equal 300, @map.each_key.to_a.uniq.size
    assert_equal :out, @map.each { break :out }
    assert_equal 300, @map.count
    assert_equal ["7", "v"], @map.find { |key, _| key == "7" }
    assert_equal 2, @map.random_pair.size
    @map.each_key { |key| @map.delete(key) }
    assert_nil @map.random_pair
  end

  def test_fixed
    map = @hold.map("f", mode: :fixed, key_bytes: 4, value_bytes: 8)
    map["abcd"] = "12345678"
    assert_equal "12345678", map["abcd"]
    assert_raises(ArgumentError) { map["abc"] }
    assert_raises(ArgumentError) { map["abcd"] = "1" }
    assert_equal :fixed, map.options[:mode]
    assert_raises(Commonhold::MismatchError) { @hold.map("f", mode: :fixed, key_bytes: 5, value_bytes: 8) }
  end

  def test_cache
    map = @hold.map("c", mode: :cache, max_entries: 100, ttl: 60)
    map.store("soon", "gone", ttl: 0.02)
    map["later"] = "there"
    await("the end of the pair") { map["soon"].nil? }
    assert_equal "there", map["later"]
    assert_equal 60_000, map.options[:ttl_ms]
    1000.times { |i| map[i.to_s] = "x" }
    assert_operator map.size, :<=, 100
    assert_nil map.remaining_ttl("absent")
    refute map.touch("absent", 1)
    map["later"] = "there"
    assert_operator map.remaining_ttl("later"), :<=, 60
    assert map.touch("later", 900)
    assert_operator map.remaining_ttl("later"), :>, 60
    assert_equal "there", map["later"]
    @map["k"] = "v"
    assert_equal Float::INFINITY, @map.remaining_ttl("k")
    assert_raises(Commonhold::MismatchError) { @map.touch("k", 1) }
    assert_raises(Commonhold::MismatchError) { @map.store("k", "v", ttl: 1) }
    assert_raises(ArgumentError) { map.store("k", "v", ttl: -1) }
  end

  def test_lists
    list = @map.list("l")
    assert_empty list.to_a
    assert_nil list.pop
    list.push("a", "b").unshift("c", "d") << "e"
    assert_equal %w[c d a b e], list.to_a
    assert_equal 5, list.size
    assert_equal "e", list.pop
    assert_equal "c", list.shift
    assert_equal %w[D A B], list.map(&:upcase)
    @map["short"] = "ab"
    assert_raises(Commonhold::MismatchError) { @map.list("short") << "x" }
  end

  def test_a_stream
    assert @hold.maps.begin_stream("m", 1 << 16)
    refute @hold.maps.begin_stream("m")
    follower = @map.follow
    from = follower.position
    assert_nil follower.try_recv
    assert_nil follower.recv(timeout: 0.01)
    @map["a"] = "1"
    @map.delete("a")
    change = follower.recv
    assert_equal [:set, "a", "1"], [change.kind, change.key, change.value]
    assert_equal :delete, follower.recv.kind
    assert_equal :set, @map.follow(from: from).recv.kind
    assert_raises(ArgumentError) { @map.follow(from: "nonsense") }
  end

  def test_statistics
    @map["a"] = "1"
    assert_equal 1, @map.stat["len"] || @map.stat["pairs"]
    assert_equal @map.digest, @hold.maps.open("m").digest
    assert_includes @hold.maps.list.to_s, "m"
    assert_kind_of Hash, @hold.stat
    assert_includes @map.inspect, "m"
  end
end
