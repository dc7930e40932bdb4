# frozen_string_literal: true

module Commonhold
  # Many writing threads of many processes, one merged log. No writer ever waits, and an accepted
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

  # Writes a log to a file.
  class Collector
    private_class_method :new
  end
end
