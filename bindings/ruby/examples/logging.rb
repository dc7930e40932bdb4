# frozen_string_literal: true

require "commonhold"

# Ruby's Logger, into one log of all processes, which survives them.
Commonhold.open("logging-#{Process.pid}", delete_on_last_exit: true) do |hold|
  log = hold.log("app", level: :debug)
  logger = log.logger(progname: "shop")
  logger.info("parent")
  fork { logger.warn("child, killed next") && Process.kill(:KILL, Process.pid) }
  Process.wait
  log.dump.each { |line| puts line.shown }
end
