# frozen_string_literal: true

require_relative "helper"
require "socket"

# Origins and replicas, in processes of their own where it says so.
class ReplicationTest < Minitest::Test
  include WithHold

  def setup
    super
    @socket = "#{@path}.socket"
    @address = "unix:#{@socket}"
    @map = @hold.map("m")
    @other = Commonhold.open("#{@path}.other.hold")
  end

  def teardown
    @other.close
    Commonhold.remove("#{@path}.other.hold", force: true)
    super
    File.delete(@socket) if File.exist?(@socket)
  end

  # A child that serves the map until it is killed.
  def origin_child(**options)
    ready, write = IO.pipe
    pid = child do
      origin = Commonhold.open(@path).origin("m", **options)
      origin.listen(@address)
      write.puts("listens")
      sleep
    end
    write.close
    assert_equal "listens", ready.gets&.chomp
    pid
  end

  def kill(pid)
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  # The position of the map's next change.
  def now
    @map.follow.position
  end

  def assert_equal_maps(replica, name = "m")
    assert replica.wait_for(now, timeout: 60)
    copy = @other.maps.open(name)
    assert_equal @map.digest, copy.digest
    assert_equal @map.to_a.sort, copy.to_a.sort
    copy
  end

  def test_a_replica_follows_the_keys_of_a_prefix
    @map["a\0b"] = @map["a\1b"] = "1"
    origin = @hold.origin("m")
    origin.listen(@address)
    ["", "n" * 256].each do |prefix|
      assert_raises(Commonhold::InvalidError) { @other.replica("m", @address, prefix: prefix) }
    end
    @other.replica("m", @address, prefix: "a\0") do |replica|
      assert replica.wait_ready(timeout: 60)
      assert_equal "a\\x00", replica.status["prefix"]
      @map["a\0c"] = @map["b"] = "2"
      assert_equal 1, @map.wait_for_replicas(1, timeout: 60)
      assert_equal [["a\0b", "1"], ["a\0c", "2"]], @other.maps.open("m").to_a.sort
    end
    assert_raises(Commonhold::MismatchError) { @other.replica("m", @address) }
    assert_raises(Commonhold::MismatchError) { @other.maps.promote("m") }
  ensure
    origin&.close
  end

  def test_a_replica_follows_a_writer_in_another_process
    1000.times { |i| @map["before #{i}"] = "x" * (i % 50) }
    origin = origin_child
    replica = @other.replica("m", @address)
    assert replica.wait_ready(timeout: 60)
    assert @other.maps.begin_stream("m")
    changes = @other.maps.open("m").follow
    assert_equal [0, changes.position], [changes.lag_bytes, changes.end]
    writer = child do
      map = Commonhold.open(@path).map("m")
      2000.times { |i| i % 3 == 2 ? map.delete("key #{i - 1}") : map["key #{i}"] = i.to_s }
      true
    end
    assert_predicate Process.wait2(writer).last, :success?
    copy = assert_equal_maps(replica)
    assert_operator changes.lag_bytes, :>, 1000
    refute_equal changes.position, changes.end
    assert_equal ["key 0", "0", :set], changes.recv(timeout: 60).then { |one| [one.key, one.value, one.kind] }
    assert_predicate copy, :replica?
    assert_raises(Commonhold::ReadOnlyError) { copy["mine"] = "x" }
    status = replica.status
    assert_equal [true, true, 1], status.values_at("connected", "ready", "synchronisations")
    assert_equal now, status["position"]
  ensure
    kill(origin) if origin
    replica&.close
  end

  def test_a_replica_resumes_after_its_origin_was_killed
    @map["a"] = "1"
    origin = origin_child
    replica = @other.replica("m", @address, first_pause: 0.01, longest_pause: 0.05, name: "near")
    assert replica.wait_ready(timeout: 60)
    kill(origin)
    await("the loss") { !replica.status["connected"] }
    await("the reason") { replica.status["last_error"] }
    100.times { |i| @map["away #{i}"] = i.to_s }
    assert_equal "1", @other.maps.open("m")["a"]
    refute replica.wait_for(now, timeout: 0.01)
    origin = origin_child
    assert_equal_maps(replica)
    @map.wait_for_replica("near", timeout: 60)
    assert_equal 1, replica.status["synchronisations"]
    assert_operator replica.status["connections"], :>=, 2
  ensure
    kill(origin) if origin
    replica&.close
  end

  def test_a_killed_replica_resumes
    @map["a"] = "1"
    @hold.origin("m") do |origin|
      origin.listen(@address)
      ready, write = IO.pipe
      pid = child do
        write.puts(Commonhold.open(@other.path).replica("m", @address).tap { |replica| @kept = replica }.wait_ready)
        sleep
      end
      write.close
      assert_equal "true", ready.gets&.chomp
      kill(pid)
      @map["b"] = "2"
      @other.replica("m", @address) do |replica|
        assert_equal_maps(replica)
        assert_equal 0, replica.status["synchronisations"]
      end
    end
  end

  def test_secrets
    origin = @hold.origin("m", secret: "open sesame")
    at = origin.listen("tcp:127.0.0.1:0")
    assert_match(/\Atcp:127\.0\.0\.1:\d+\z/, at)
    [{ secret: "wrong" }, {}].each do |wrong|
      @other.replica("m", at, **wrong, first_pause: 0.01) do |replica|
        await("the refusal") { replica.status["last_error"] }
        refute replica.wait_ready(timeout: 0.05)
        refute replica.status["ready"]
      end
    end
    @other.replica("m", at, secret: "open sesame") { |replica| assert replica.wait_ready(timeout: 60) }
    assert_raises(ArgumentError) { @hold.origin("m", secret: "") }
    assert_raises(ArgumentError) { @other.replica("m", at, secret: "") }
    assert_raises(TypeError) { @hold.origin("m", secret: 7) }
    @hold.origin("m") do |open|
      error = assert_raises(Commonhold::InvalidError) { open.listen("tcp:0.0.0.0:0") }
      assert_includes error.message, "secret"
    end
    @hold.origin("m", allow_unauthenticated: true) { |open| assert_match(/\Atcp:0/, open.listen("tcp:0.0.0.0:0")) }
  ensure
    origin&.close
  end

  def test_promoting
    @map["a"] = "1"
    @hold.origin("m") do |origin|
      origin.listen(@address)
      replica = @other.replica("m", @address)
      assert replica.wait_ready(timeout: 60)
      assert_raises(Commonhold::BusyError) { @other.replica("m", @address) }
      assert_raises(Commonhold::BusyError) { @other.maps.promote("m") }
      replica.close
      replica.close
      assert_raises(Commonhold::ClosedError) { replica.status }
      assert_raises(Commonhold::ClosedError) { replica.wait_ready }
    end
    copy = @other.maps.open("m")
    assert_raises(Commonhold::ReadOnlyError) { copy["mine"] = "x" }
    done = @other.maps.promote("m")
    assert_operator done["epoch"], :>, 0
    assert_equal now.split(".").first, done["position"].split(".").first
    assert_nil @other.maps.promote("m")
    copy["mine"] = "now"
    assert_equal({ "a" => "1", "mine" => "now" }, copy.to_h)
  end

  # Changes bytes of a hold as rotten memory does.
  def spoil(path, old, new)
    File.open(path, "r+b") do |file|
      file.pos = file.read.index(old)
      file.write(new)
    end
  end

  # Ruby sent a signal after the other to the thread at the end of the process, whose sleeps then
  # never ended.
  def ends_while_it_compares
    program = <<~RUBY
      require "commonhold"
      require "timeout"
      hold = Commonhold.open(ARGV[0])
      begin
        Timeout.timeout(0.1) { Commonhold::Replica.verify(hold, "m", ARGV[1], timeout: 1) }
      rescue Timeout::Error
        puts "interrupted"
      end
    RUBY
    paths = $LOAD_PATH.flat_map { |path| ["-I", path] }
    assert_equal "interrupted\n", IO.popen([RbConfig.ruby, *paths, "-e", program, @other.path, @address], &:read)
  end

  def test_readers_limit_the_age_of_a_replicas_contents
    @map["a"] = "1"
    assert_nil @map.lag
    @map.ensure_fresh(0)
    assert_equal "1", @map.get_fresh("a", 0)
    origin = origin_child
    @other.replica("m", @address) do |replica|
      assert replica.wait_ready(timeout: 60)
      kill(origin)
      copy = @other.maps.open("m")
      await("age") { copy.lag&.>(0.05) }
      errors = [-> { copy.ensure_fresh(0.05) }, -> { copy.get_fresh("a", 0.05) }, -> { copy.get_fresh("b", 0.05) }]
      errors.each { |read| assert_match(/must not be older/, assert_raises(Commonhold::StaleError, &read).message) }
      copy.ensure_fresh(3600)
      assert_equal "1", copy.get_fresh("a", 3600)
      assert_nil copy.get_fresh("b", Float::INFINITY)
      assert_raises(ArgumentError) { copy.ensure_fresh(-1) }
      assert_raises(TypeError) { copy.get_fresh("a", nil) }
    end
  end

  def test_verifying
    100.times { |i| @map["key #{i}"] = "value #{i} of a replica" }
    @hold.origin("m", secret: "s") do |origin|
      origin.listen(@address)
      replica = @other.replica("m", @address, secret: "s")
      assert replica.wait_ready(timeout: 60)
      report = Commonhold::Replica.verify(@other, "m", @address, secret: "s", timeout: 60)
      assert_equal [true, 100, 0], report.values_at("equal", "pairs", "different")
      spoil(@other.path, "value 77 of", "valve 77 of")
      report = Commonhold::Replica.verify(@other, "m", @address, secret: "s", timeout: 60)
      assert_equal [false, 1, ["key 77"]], report.values_at("equal", "different", "differing")
      assert_raises(Commonhold::NotFoundError) { Commonhold::Replica.verify(@other, "none", @address, secret: "s") }
      replica.close
    end
    assert_raises(Commonhold::InvalidError) { Commonhold::Replica.verify(@other, "m", "nonsense") }
    assert_raises(Commonhold::TimedOutError) { Commonhold::Replica.verify(@other, "m", @address, timeout: 0.05) }
    ends_while_it_compares
  end

  def test_sockets_of_the_program
    @map["a"] = "1"
    origin = @hold.origin("m")
    ours, theirs = UNIXSocket.pair
    number = origin.attach(ours)
    replica = @other.replica("m", theirs, name: "attached")
    [ours, theirs].each(&:close) # Both sides have copies.
    assert replica.wait_ready(timeout: 60)
    assert_equal_maps(replica)
    assert_equal ["attached"], (origin.replicas.map { |one| one["name"] })
    assert origin.detach(number)
    refute replica.wait_for("#{now.split('.').first}.999999999") # It ends instead of waiting.
    assert replica.wait_ready
    assert replica.status["ended"]
    await("the end") { !origin.detach(number) }
    server = UNIXServer.new(@socket)
    assert_equal @address, origin.listen_on(server)
    server.close
    @other.replica("second", @address) { |second| assert_equal_maps(second, "second") if second.wait_ready(timeout: 60) }
  ensure
    origin&.close
    replica&.close
  end

  def test_a_descriptor_that_is_refused_stays_open_and_leaves_no_copy
    origin = @hold.origin("m", most_replicas: 1)
    origin.listen(@address)
    replica = @other.replica("m", @address)
    assert replica.wait_ready(timeout: 60)
    ours, theirs = UNIXSocket.pair
    before = Dir.children("/proc/self/fd").size
    assert_raises(Commonhold::FullError) { origin.attach(ours) }
    assert_raises(Commonhold::BusyError) { @other.replica("m", theirs) }
    # The collector may close those of earlier tests meanwhile.
    assert_operator Dir.children("/proc/self/fd").size, :<=, before
    ours.write("still open")
    assert_equal "still open", theirs.readpartial(20)
    assert_raises(Errno::EBADF) { origin.attach(99_999) }
    assert_raises(NoMethodError) { origin.attach(Object.new) }
  ensure
    origin&.close
    replica&.close
  end

  def test_changes_on_demand_and_at_the_end
    origin = @hold.origin("m", explicit: true, stream_bytes: 1 << 20, threads: 2, uids: [Process.uid])
    origin.listen(@address)
    replica = @other.replica("m", @address)
    assert replica.wait_ready(timeout: 60)
    @map["a"] = "1"
    origin.transmit
    assert_equal_maps(replica)
    @map["last"] = "2"
    origin.close(timeout: 60)
    assert_equal_maps(replica)
    origin.close
    assert_raises(Commonhold::ClosedError) { origin.transmit }
  ensure
    replica&.close
  end

  def test_both_sides_decide_on_compression
    300.times { |i| @map[i.to_s] = "x" * 1000 }
    [%i[always always], %i[never always], %i[always auto]].each_with_index do |(ours, theirs), number|
      @hold.origin("m", compression: ours) do |origin|
        origin.listen(@address)
        @other.replica("copy #{number}", @address, compression: theirs) do |replica|
          await("the full sync") { replica.status["sync_bytes"] > 300_000 }
          assert_equal number.zero?, replica.status["sync_wire_bytes"] < 100_000
        end
      end
    end
    assert_raises(ArgumentError) { @hold.origin("m", compression: :some) }
    assert_raises(ArgumentError) { @other.replica("m", @address, compression: 1) }
  end

  def test_a_replica_goes_on_at_another_address_and_relays
    @map["a"] = "1"
    last = Commonhold.open("#{@path}.last.hold")
    origin = @hold.origin("m")
    origin.listen(@address)
    relay_at = "#{@address}.relay"
    @other.replica("m", @address, stream_bytes: 1 << 20) do |replica|
      assert replica.wait_ready(timeout: 60)
      ours, theirs = [@hold, @other].map { |hold| hold.maps.open("m").stat["stream"] }
      assert_equal [1 << 20, ours["end"]], theirs.values_at("bytes", "end")
      @other.origin("m") do |relay|
        relay.listen(relay_at)
        last.replica("copy", @address, also: [relay_at], origin_map: "m") do |second|
          assert second.wait_ready(timeout: 60)
          origin.close
          await("the relay") { second.status.values_at("origin", "connected") == [relay_at, true] }
          assert_equal 1, second.status["synchronisations"]
        end
        last.replica("m", relay_at, origin_map: "wrong", first_pause: 0.001) do |wrong|
          await("the refusal") { wrong.status["last_error"]&.include?("wrong") }
        end
      end
    end
    assert_raises(Commonhold::InvalidError) { last.replica("m", @address, also: ["nowhere"]) }
    assert_raises(TypeError) { last.replica("m", @address, also: relay_at) }
    assert_raises(TypeError) { last.replica("m", @address, also: [1]) }
  ensure
    origin&.close
    last.close
    Commonhold.remove("#{@path}.last.hold")
  end

  def test_a_replica_adopts_another_map_only_if_it_may
    @hold.map("next")["b"] = "2"
    @hold.origin("m") do |origin|
      origin.listen(@address)
      @other.replica("m", @address) { |replica| assert replica.wait_ready(timeout: 60) }
    end
    @hold.origin("next") do |origin|
      origin.listen(@address)
      @other.replica("m", @address, first_pause: 0.001) do |replica|
        await("the refusal") { replica.status["last_error"]&.include?("map 'next' of hold") }
      end
      refute @other.maps.open("m").key?("b")
      @other.replica("m", @address, adopt: true) { await("the other map") { @other.maps.open("m").key?("b") } }
    end
  end

  def test_wrong_arguments
    assert_raises(Commonhold::NotFoundError) { @hold.origin("none") }
    assert_raises(ArgumentError) { @hold.origin("m", uids: []) }
    assert_raises(TypeError) { @hold.origin("m", uids: 1000) }
    assert_raises(ArgumentError) { @hold.origin("m", sekret: "x") }
    assert_raises(Commonhold::InvalidError) { @other.replica("m", "nonsense") }
    assert_raises(Commonhold::MismatchError) { @hold.replica("m", @address) }
    assert_raises(NoMethodError) { Commonhold::Origin.new }
    @hold.origin("m") do |origin|
      assert_raises(Commonhold::InvalidError) { origin.listen("nonsense") }
      assert_raises(ArgumentError) { origin.close(timeout: -1) }
      origin.listen(@address)
      @hold.origin("m") { |second| assert_raises(Commonhold::BusyError) { second.listen(@address) } }
    end
    @other.replica("m", @address) { |replica| assert_raises(Commonhold::InvalidError) { replica.wait_for("x") } }
  end

  # Nothing listens there, so the waits have no end of their own.
  def test_waits_let_other_threads_run_and_can_be_interrupted
    replica = @other.replica("m", @address)
    waits = [-> { replica.wait_ready }, -> { replica.wait_for("1.1") }]
    waits.each do |wait|
      thread = Thread.new(&wait)
      await("the thread") { thread.status == "sleep" }
      assert thread.kill.join(60)
      assert_raises(Timeout::Error) { Timeout.timeout(0.1) { wait.call } }
    end
    closed = Thread.new { waits[0].call }
    closed.report_on_exception = false
    await("the thread") { closed.status == "sleep" }
    replica.close
    assert_raises(Commonhold::ClosedError) { closed.value }
  end

  # A stopped replica does not read what it is sent.
  def test_the_wait_for_the_last_changes_can_be_interrupted
    origin = @hold.origin("m")
    origin.listen(@address)
    pid = child { Commonhold.open(@other.path).replica("m", @address).tap { |replica| @kept = replica } && sleep }
    await("the replica") { origin.replicas.any? { |one| one["state"] == "following" } }
    Process.kill(:STOP, pid)
    Process.wait(pid, Process::WUNTRACED)
    40.times { |i| @map["key #{i}"] = "x" * (1 << 20) }
    assert_raises(Timeout::Error) { Timeout.timeout(0.1) { origin.close(timeout: 600) } }
    assert_raises(Commonhold::ClosedError) { origin.replicas }
    kill(pid)
  end

  def test_a_signal_ends_a_wait
    ready, write = IO.pipe
    pid = child do
      replica = Commonhold.open(@other.path).replica("m", @address)
      trap(:INT) { raise Interrupt }
      write.puts("waits")
      replica.wait_ready
    rescue Interrupt
      replica.close
      true
    end
    write.close
    assert_equal "waits", ready.gets&.chomp
    Process.kill(:INT, pid)
    assert_predicate Process.wait2(pid).last, :success?
  end

  def test_a_child_ends_nothing_of_its_parents
    origin = @hold.origin("m")
    origin.listen(@address)
    replica = @other.replica("m", @address)
    journal = @hold.journal("m", "#{@path}.journal")
    assert replica.wait_ready(timeout: 60)
    things = [origin, replica, journal]
    assert_child do
      uses = [-> { origin.transmit }, -> { origin.replicas }, -> { replica.status }, -> { replica.wait_ready },
              -> { journal.status }, -> { journal.over? }]
      raised = uses.map { |use| use.call && nil rescue $!.class } # rubocop:disable Style/RescueModifier
      things.each(&:close)
      origin = replica = journal = uses = nil
      things.clear
      GC.start
      raised == [Commonhold::InvalidError] * 6
    end
    @map["after"] = "the child"
    assert_equal_maps(replica)
    assert @map.sync(timeout: 60)
    @map["after"] = "all"
    assert_equal_maps(replica)
  ensure
    things&.each(&:close)
    File.delete("#{@path}.journal")
  end

  def forgotten_servers
    Array.new(8) { |i| @hold.origin("m").listen("#{@address}#{i}") } && nil
    Array.new(8) { |i| @other.replica("m#{i}", @address) } && nil
  end

  # Ends what the collector finds; conservatively, so not all at once.
  def test_the_collector_ends_them
    forgotten_servers
    await("an origin's end") { GC.start || Dir["#{@socket}?"].size < 8 }
    @hold.origin("m") do |origin|
      origin.listen(@address)
      await("a replica's end") do
        GC.start
        (0...8).any? { |i| @other.replica("m#{i}", @address) { true } rescue nil } # rubocop:disable Style/RescueModifier
      end
    end
  ensure
    Dir["#{@socket}?"].each { |left| File.delete(left) }
  end
end
