# frozen_string_literal: true

require "logger"

module Commonhold
  # A device for Ruby's Logger: each message becomes a line of the log (several, if it has
  # newlines), at its severity.
  #
  #   logger = hold.log("app").logger
  #   # the same, with a formatter of one's own:
  #   logger = Logger.new(Commonhold::LoggerDevice.new(hold.log("app")))
  class LoggerDevice
    SEVERITIES = { "D" => :debug, "I" => :info, "W" => :warn, "E" => :error, "F" => :error, "A" => :error }.freeze
    private_constant :SEVERITIES

    # @param log [Log]
    # @param level [Symbol] for lines without a severity in Logger's usual format
    def initialize(log, level: :info)
      @log = log
      @level = level
    end

    # A formatter that omits time, severity and process, which the log records itself.
    def formatter
      usual = ::Logger::Formatter.new
      lambda do |severity, _time, program, message|
        text = usual.call("", Time.at(0), nil, message).split(" -- : ", 2).last
        "#{severity[0]}, [#{program ? "#{program}: " : ''}#{text}"
      end
    end

    # Called by Logger.
    def write(text)
      level, rest = severity_of(text)
      lines = rest.sub(/\n+\z/, "").lines(chomp: true)
      (lines.empty? ? [""] : lines).each { |line| @log.write(level, line) }
      text.bytesize
    end

    # Called by Logger#close; the log itself stays open.
    def close; end

    private

    def severity_of(text)
      initial = text[/\A([DIWEFA]), \[/, 1] if text.encoding.ascii_compatible?
      return [@level, text] unless initial

      [SEVERITIES.fetch(initial), text.match?(/\A., \[\d{4}-\d\d-\d\dT/) ? text : text[4..]]
    end
  end
end
