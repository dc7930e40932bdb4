# frozen_string_literal: true

module Commonhold
  # Lines from many threads and processes, merged by time. No writer ever waits, and an accepted
  # line stays in the hold whatever happens to its writer.
  class Log
    LEVELS = { error: 1, warn: 2, info: 3, debug: 4, trace: 5 }.freeze
    private_class_method :new

    # @private
    def self.level_number(level)
      LEVELS.fetch(level.to_sym) { raise ArgumentError, "expected one of #{LEVELS.keys.join(', ')}, got #{level.inspect}" }
    end

    # Writes one line of any bytes, without a newline; returns whether it was accepted.
    def write(level, text)
      _write(Log.level_number(level), text)
    end

    LEVELS.each do |name, number|
      # error(text), warn(text), info(text), debug(text), trace(text); or with a block, which is
      # called only if the level is enabled.
      define_method(name) do |text = nil, &block|
        next false unless _enabled(number)

        _write(number, block ? block.call : text)
      end
    end

    # The least important level that is enabled, in all processes.
    def level
      LEVELS.key(_level)
    end

    def level=(level)
      _set_level(Log.level_number(level))
    end

    def enabled?(level)
      _enabled(Log.level_number(level))
    end

    # Becomes the log's collector, into a file of at most +max_bytes+ and +keep+ older ones.
    # BusyError while another one lives.
    # @return [Collector]
    def collect_to_file(path, max_bytes: 64 << 20, keep: 3)
      _collect(path.to_s, max_bytes, keep)
    end

    # Becomes the log's collector, and writes to a file, pipe or socket that is open for writing.
    # The collector uses a copy of its descriptor. If a collector is killed, the next one repeats
    # the text that it had written but not yet marked as written. BusyError while another one lives.
    # @param io [IO, Integer]
    # @return [Collector]
    def collect_to(io)
      io.flush if io.respond_to?(:flush)
      _collect_to(io.respond_to?(:fileno) ? io.fileno : io)
    end

    # The statistics of the log, as a Hash.
    def stat
      JSON.parse(_describe)
    end

    # A Logger of Ruby's standard library that writes here.
    # @return [::Logger]
    def logger(**options)
      require_relative "logger_device"
      device = LoggerDevice.new(self)
      ::Logger.new(device, formatter: device.formatter, **options)
    end
  end

  # Reads a log as it grows (Log#reader). For one thread at a time.
  class LogReader
    include Enumerable

    private_class_method :new

    # Yields each Line: those in the hold, and then new ones, forever. A line is yielded at most
    # about +interval+ seconds after it was written.
    def each(interval: 0.01)
      return enum_for(:each, interval: interval) unless block_given?

      while true # loop would swallow the block's StopIteration
        lines = poll
        lines.each { |line| yield line }
        sleep(interval) if lines.empty?
      end
    end
  end

  # Writes a log to a file (Log#collect_to_file, Log#collect_to). For one thread at a time.
  class Collector
    private_class_method :new

    # Collects until another thread or a signal handler has called #stop, or until the block, which is
    # called after each round, returns true; then collects the lines that are left. Returns the number
    # of lines. Rounds without lines are +interval+ seconds apart.
    def run(interval: 0.01)
      lines = 0
      until @stopped
        round = poll
        lines += round
        break if block_given? && yield
        sleep(interval) if round.zero?
      end
      lines + finish
    end

    # Ends #run, now or as soon as it is called.
    def stop
      @stopped = true
    end
  end
end
