# frozen_string_literal: true

require "commonhold"

# A channel: one process sends, and all others receive. A queue: each element is in flight in one
# process at a time.
Commonhold.open("messages-#{Process.pid}", delete_on_last_exit: true) do |hold|
  channel = hold.channel("news", ring_bytes: 1 << 16)
  jobs = hold.queue("jobs", elements: 8, element_bytes: 64, queues: %i[free todo])

  reader = channel.consumer
  fork { channel.producer { |producer| 3.times { |i| producer << "news #{i}" } } }
  3.times { puts reader.recv(timeout: 10) }

  worker = fork do
    job = jobs.pull(:todo, timeout: 10)
    puts "does #{job.read.delete("\0")}"
    jobs.push(:free, job)
  end
  jobs.push(:todo, jobs.pull(:free).write("the dishes"))
  Process.waitall
  puts "worker #{worker} is done; #{jobs.size(:free)} elements are free"
end
