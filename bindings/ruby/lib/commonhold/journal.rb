# frozen_string_literal: true

module Commonhold
  # Records every change of a map in a file (Hold#journal), from which the map is rebuilt after a
  # crash of the system. Any process may write to the map, and wait until its changes are durable
  # (Map#sync).
  #
  # If the journal's process is killed, the next journal resumes the file. In a forked child,
  # everything but #close raises InvalidError, and #close has no effect.
  class Journal
    private_class_method :new

    # Rebuilds a map that does not exist from its journal. No process can open the map before it is
    # whole. ExistsError if there is a map of this name; DamagedError if the file is not a journal, or
    # too much of it is lost, or if a part that was durable is damaged.
    #
    # @param hold [Hold]
    # @param at [Time, Numeric, String, nil] rebuilds the state that Journal.find_state returns for this
    #   time; a journal does not continue the file then, which has changes that the map lacks
    # @param archive [String] for +at+: as for Journal.find_state
    # @param skip_damaged [Boolean] leaves damaged parts out, instead of refusing the file
    # @return [Hash] a report: "position", "pairs", "changes", "cut_off_bytes", "damage"; with +at+ also
    #   the "file" and the time ("time_ms") of the state
    def self.rebuild(hold, map, file, at: nil, archive: nil, skip_damaged: false)
      raise ArgumentError, "archive: has no effect without a time; give at:, too" if archive && at.nil?

      at = milliseconds(at) unless at.nil?
      JSON.parse(hold.__send__(:_rebuild, map, path(file), at, path(archive), skip_damaged))
    end

    # Finds the last state of a map whose time is not later than +at+, in the journal's file and its
    # segments. InvalidError, with the times that can be restored, if there is no such state, or if it
    # is not known because a segment is missing or the journal did not run.
    #
    # @param at [Time, Numeric, String] a time, seconds since 1970, or text such as "2026-11-23 10:15" or
    #   "2026-11-23T10:15:00+02:00"; without a zone it is UTC
    # @param archive [String] the directory of the segments; the file's path and +.d+ by default
    # @return [Hash] its "file", and its time in milliseconds since 1970 ("time_ms")
    def self.find_state(file, at, archive: nil, skip_damaged: false)
      JSON.parse(_find_state(path(file), milliseconds(at), path(archive), skip_damaged))
    end

    # Its status: "position", "durable", "bytes", "error" and others.
    # @return [Hash]
    def status
      JSON.parse(_status)
    end

    # Writes all changes, makes them durable, and ends the journal. Raises SystemError if some
    # changes have not become durable. Close a journal before its hold: afterwards it cannot read
    # the remaining changes. Waits for the disk without a time limit. If a signal or Timeout ends
    # the wait, the journal still ends when the disk answers. The garbage collector also ends a
    # journal, but it reports no error, and other Ruby threads cannot run meanwhile.
    def close
      Commonhold.in_a_thread { _end }
    end

    # A time in milliseconds since 1970.
    # @private
    def self.milliseconds(at)
      return _time(at) if at.is_a?(String)

      seconds = at.respond_to?(:to_time) ? at.to_time.to_r : at
      seconds = seconds.to_r if seconds.is_a?(Time)
      raise TypeError, "expected a Time, a number or a String, got #{at.class}" unless seconds.is_a?(Numeric)
      raise InvalidError, "expected a time from 1970 on, got #{at}" if seconds.negative?

      seconds.is_a?(Float) ? (seconds * 1000).round : (seconds * 1000).floor
    end

    # @private
    def self.path(file)
      file.respond_to?(:to_path) ? file.to_path : file
    end

    # The options with times in milliseconds.
    # @private
    def self.complete(options, sync)
      options = options.merge(policy(sync))
      options[:archive] = path(options[:archive]) if options[:archive]
      { keep: :keep_ms, segment_time: :segment_ms }.each do |name, milliseconds|
        seconds = options.delete(name)
        next if seconds.nil?
        raise ArgumentError, "expected #{name}: more than 0 seconds, got #{seconds}" unless seconds.positive?

        options[milliseconds] = (seconds * 1000).ceil
      end
      options
    end

    # A ch_sync_policy and its milliseconds.
    # @private
    def self.policy(sync)
      case sync
      when :always then { sync: 0 }
      when :never then { sync: 2 }
      when Numeric
        raise ArgumentError, "expected sync: from 0.001 to 3600 seconds, got #{sync}" unless (0.001..3600).cover?(sync)

        { sync: 1, every_ms: (sync * 1000).ceil }
      else raise ArgumentError, "expected sync: :always, :never or a number of seconds, got #{sync.inspect}"
      end
    end
  end
end
