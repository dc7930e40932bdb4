# frozen_string_literal: true

# A map that another process follows in its own hold, and whose journal survives the hold.
require "commonhold"
require "tmpdir"

Dir.mktmpdir do |folder|
  address = "unix:#{folder}/socket"
  journal = "#{folder}/prices.journal"

  Commonhold.open("#{folder}/shop.hold") do |shop|
    prices = shop.map("prices")
    prices["apple"] = "3"
    shop.origin("prices") do |origin|
      origin.listen(address)

      # On another machine it would be tcp:HOST:PORT, with a secret.
      follower = fork do
        Commonhold.open("#{folder}/branch.hold") do |branch|
          branch.replica("prices", address, name: "branch") do |replica|
            replica.wait_ready
            copy = branch.maps.open("prices")
            sleep(0.01) until copy["pear"]
            puts "the branch has #{copy.to_h}"
          end
        end
      end
      prices["pear"] = "4"
      Process.wait(follower)
    end

    shop.journal("prices", journal) do
      prices["plum"] = "5"
      prices.sync # On the disk: every change so far.
    end
  end

  # As after a crash of the system.
  Commonhold.remove("#{folder}/shop.hold")
  Commonhold.open("#{folder}/shop.hold") do |shop|
    report = Commonhold::Journal.rebuild(shop, "prices", journal)
    puts "rebuilt: #{shop.map('prices').to_h}, #{report['cut_off_bytes']} bytes were lost"
  end
end
