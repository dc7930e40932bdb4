# frozen_string_literal: true

require_relative "helper"
require "fileutils"
require "pathname"

class JournalTest < Minitest::Test
  include WithHold

  def setup
    super
    @file = "#{@path}.journal"
    @map = @hold.map("m")
  end

  def teardown
    super
    FileUtils.rm_rf(Dir["#{@path}.*"])
  end

  # A child that keeps the journal until it is killed.
  def journal_child
    ready, write = IO.pipe
    pid = child do
      @kept = Commonhold.open(@path).journal("m", @file)
      write.puts("keeps")
      sleep
    end
    write.close
    assert_equal "keeps", ready.gets&.chomp
    pid
  end

  def kill(pid)
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  # The rest of the test has an empty one.
  def lose_the_hold
    @hold.close
    Commonhold.remove(@path)
    @hold = Commonhold.open(@path, create: true)
  end

  # The map of the journal, in a new hold.
  def rebuilt(name = "m")
    Commonhold.open("#{@path}.again.hold", create: true) do |again|
      @report = Commonhold::Journal.rebuild(again, name, @file)
      again.maps.open(name).to_h
    end
  ensure
    Commonhold.remove("#{@path}.again.hold")
  end

  def test_what_sync_confirms_survives_the_hold_and_the_journals_process
    500.times { |i| @map["before #{i}"] = i.to_s }
    journal = journal_child
    500.times { |i| @map["key #{i}"] = "x" * i }
    assert_match(/\A\h+\.\d+\z/, @map.sync(timeout: 60))
    kill(journal)
    assert_raises(Commonhold::NotFoundError) { @map.sync(timeout: 60) }
    @map["away"] = "1"
    @map.delete("key 7")
    journal = journal_child
    @map["resumed"] = "2"
    @map.sync(timeout: 60)
    wanted = @map.to_h
    kill(journal)
    lose_the_hold
    assert_equal wanted, rebuilt
    assert_equal wanted.size, rebuilt.size
    assert_kind_of Integer, @report["pairs"]
    assert_empty @report["damage"]
  end

  def test_a_map_is_rebuilt_in_place_and_the_journal_resumed
    @hold.journal("m", @file) { @map["a"] = "1" } # Its end makes all changes durable.
    assert @hold.maps.drop("m")
    Commonhold::Journal.rebuild(@hold, "m", @file)
    assert_raises(Commonhold::ExistsError) { Commonhold::Journal.rebuild(@hold, "m", @file) }
    map = @hold.maps.open("m")
    assert_equal({ "a" => "1" }, map.to_h)
    @hold.journal("m", @file) { map["b"] = "2" }
    assert_equal({ "a" => "1", "b" => "2" }, rebuilt)
  end

  def test_policies_of_syncs
    { always: "always", 0.02 => "every-ms 20", never: "never" }.each do |sync, shown|
      @hold.journal("m", @file, sync: sync) do |journal|
        assert_equal [shown, @file, Process.pid], journal.status.values_at("sync", "file", "pid")
        @map["policy"] = shown
        sync == :never ? assert_raises(Commonhold::Error) { @map.sync(timeout: 60) } : @map.sync(timeout: 60)
        refute_predicate journal, :over?
      end
      assert_equal({ "policy" => shown }, rebuilt)
    end
    [:sometimes, 0, -1, 3601, "always", nil].each do |wrong|
      assert_raises(ArgumentError) { @hold.journal("m", @file, sync: wrong) }
    end
  end

  def test_a_file_is_compacted
    @hold.journal("m", @file, compact_bytes: 4096) do |journal|
      await("a compaction") do
        @map["key"] = "x" * 1000
        @map.sync(timeout: 60)
        journal.status["compactions"].positive?
      end
    end
    assert_equal({ "key" => "x" * 1000 }, rebuilt)
  end

  def test_a_map_or_a_file_has_one_journal
    @hold.map("second")
    other = journal_child
    assert_raises(Commonhold::BusyError) { @hold.journal("m", "#{@file}.2") }
    assert_raises(Commonhold::BusyError) { @hold.journal("second", @file, replace: true) }
    kill(other)
    @hold.journal("m", @file).close
  end

  def test_what_cannot_have_a_journal
    @hold.map("c", mode: :cache)
    File.write("#{@path}.text", "not a journal" * 100)
    assert_raises(Commonhold::MismatchError) { @hold.journal("c", @file) }
    assert_raises(Commonhold::NotFoundError) { @hold.journal("none", @file) }
    assert_raises(Commonhold::Error) { @hold.journal("m", "#{@path}.none/it") }
    assert_raises(Commonhold::DamagedError) { Commonhold::Journal.rebuild(@hold, "new", "#{@path}.text") }
    assert_raises(ArgumentError) { @hold.journal("m", @file, compact: 1) }
    assert_raises(ArgumentError) { @hold.journal("m", "a\0b") }
    assert_raises(NoMethodError) { Commonhold::Journal.new }
    @hold.journal("m", Pathname(@file)) { |journal| assert_equal @file, journal.status["file"] }
  end

  def test_closing_reports_what_is_not_durable
    Dir.mkdir("#{@path}.folder")
    journal = @hold.journal("m", "#{@path}.folder/it")
    @map["a"] = "1"
    @map.sync(timeout: 60)
    FileUtils.rm_rf("#{@path}.folder")
    @map["b"] = "2"
    error = assert_raises(Commonhold::SystemError) { journal.close }
    assert_includes error.message, "#{@path}.folder/it"
    assert_nil journal.close
    assert_raises(Commonhold::ClosedError) { journal.status }
  end

  def test_a_journal_is_over_when_its_map_is_dropped
    journal = @hold.journal("m", @file)
    @hold.maps.drop("m")
    await("the end") { journal.over? }
    assert_includes assert_raises(Commonhold::SystemError) { journal.close }.message, "was dropped"
  end

  def forgotten_journal
    @hold.journal("m", @file) && nil
  end

  def test_the_collector_ends_a_journal_whose_changes_are_then_durable
    forgotten_journal
    @map["a"] = "1"
    await("the end") do
      GC.start
      @hold.journal("m", "#{@file}.2") { true }
    rescue Commonhold::BusyError
      false
    end
    assert_equal({ "a" => "1" }, rebuilt)
  end

  def test_segments_are_kept
    [{ archive: "/" }, { segment_time: 1 }].each do |options|
      assert_match(/segments/, assert_raises(Commonhold::InvalidError) { @hold.journal("m", @file, **options) }.message)
    end
    assert_raises(ArgumentError) { @hold.journal("m", @file, keep: 0) }
    archive = Pathname("#{@path}.segments")
    @hold.journal("m", @file, keep: 3600, archive: archive, segment_time: 0.001) do |journal|
      while archive.empty?
        @map.increment("n")
        @map.sync(timeout: 60)
      end
      await("the status") { journal.status["segments"].positive? }
      assert_equal archive.to_s, journal.status["archive"]
    end
    @hold.journal("m", @file, keep: 3600) { |journal| assert_equal "#{@file}.d", journal.status["archive"] }
  end

  def test_damage_is_refused_or_skipped
    @hold.journal("m", @file) do
      @map.sync(timeout: 60) # So that the file has each key once.
      2000.times { |i| @map["key #{i}"] = "x" * 100 }
      @map.sync(timeout: 60)
    end
    File.binwrite(@file, "\xff" * 3000, 100_000)
    lose_the_hold
    assert_raises(Commonhold::DamagedError) { Commonhold::Journal.rebuild(@hold, "m", @file) }
    report = Commonhold::Journal.rebuild(@hold, "m", @file, skip_damaged: true)
    refute_empty report["damage"]
    assert_includes 1901..1999, @hold.maps.open("m").size
  end

  # Two states: the time of the first, which a pause follows, of which the journal notes the beginning.
  def two_states(**options)
    @hold.journal("m", @file, **options) do
      @map["first"] = "1"
      @map.sync(timeout: 60)
      at = Time.now
      sleep 0.3
      @map["second"] = "2"
      @map.sync(timeout: 60)
      at
    end
  end

  def test_an_earlier_state_is_rebuilt
    at = two_states
    state = Commonhold::Journal.find_state(@file, at)
    assert_equal @file, state["file"]
    assert_operator state["time_ms"], :<=, at.to_f * 1000
    lose_the_hold
    same = [at, at.to_r, at.utc.strftime("%Y-%m-%d %H:%M:%S.%3N"), at.getlocal("+05:30").strftime("%FT%T.%3N%:z")]
    same.each_with_index do |time, number|
      report = Commonhold::Journal.rebuild(@hold, "m #{number}", Pathname(@file), at: time)
      assert_equal state["time_ms"], report["time_ms"]
      assert_equal({ "first" => "1" }, @hold.maps.open("m #{number}").to_h)
    end
    assert_raises(Commonhold::ExistsError) { Commonhold::Journal.rebuild(@hold, "m 0", @file, at: at) }
    assert_raises(ArgumentError) { Commonhold::Journal.rebuild(@hold, "n", @file, archive: "/") }
    ["now", -1, 1000, Time.at(-1)].each do |wrong|
      assert_raises(Commonhold::InvalidError) { Commonhold::Journal.find_state(@file, wrong) }
    end
    assert_raises(TypeError) { Commonhold::Journal.find_state(@file, nil) }
    assert_raises(Commonhold::NotFoundError) { Commonhold::Journal.find_state("#{@file}.none", at) }
  end

  def test_an_earlier_state_is_in_a_segment
    archive = "#{@path}.segments"
    at = two_states(keep: 3600, archive: archive)
    @hold.journal("m", @file, keep: 3600, archive: archive, replace: true) { @map.sync(timeout: 60) }
    lose_the_hold
    assert_raises(Commonhold::InvalidError) { Commonhold::Journal.rebuild(@hold, "m", @file, at: at) }
    Commonhold::Journal.rebuild(@hold, "m", @file, at: at, archive: archive)
    assert_equal({ "first" => "1" }, @hold.maps.open("m").to_h)
  end
end
