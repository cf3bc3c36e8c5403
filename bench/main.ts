/** `npm run bench`. */
import { parseArgs } from "node:util"
import * as Driver from "./Driver.ts"
import * as Interruptible from "./Interruptible.ts"
import { groups } from "./Rows.ts"

const help = () =>
  `npm run bench [-- <what>] [--quick]

Without <what>, all rows beside what they are compared with, as one table. In each of five rounds the sides take turns; what is shown are
medians. A ratio above 1 is in favour of ours. --quick takes shorter rounds, and fails where a ratio is below the kept ratio in
bench/ratios.json by more than its noise, or a limit is passed. The machine should be quiet.

rows:
${Driver.listed()}

what:
${groups.map(({ name }) => `  ${name.padEnd(12)}  its rows alone`).join("\n")}
  agents        each agent that is installed, beside its model: start, latency to the first word, memory
  fleet         many sandboxes on one machine: slots, bursts, rest, checkpoints, moving to another machine
  hosts         boxes by host (10 min; 3 with --quick): their boot, the first byte of a program, a line of 200 bytes there and back, output;
                without isolation, on this machine, and in machines with runners, one of them behind a cable. As root, with bubblewrap,
                runsc, a Docker daemon at SLIPWAY_DOCKER_SOCKET and iproute2 it has all; what is left out, it says
  environments  what setup costs a sandbox's start, and what caches save of it (10 min): \`npm ci\` of real packages
  pages         pages of the service, and the largest pages of a sandbox (5 min; 2 with --quick): 10,000 events, 500 files changed,
                Markdown, hostile names and lines; each figure beside what it should reach: the reply, its first byte, the bytes of a first
                visit, its first paint in Chromium
  repositories  100,000 files, 50,000 commits and 1 GiB (10 min; 1 with --quick, which takes a twentieth): boots, listings, comparisons and
                a publication, and trees that are too deep. Fails where one of them does, or a boot takes more than 90 s
  traces        what traces cost, off and on (4 min): our server beside itself without a line that makes spans

  --quick     fewer or shorter rounds
  --keep      with rows: takes quick rounds and keeps their ratios, for what runs with --quick later
  --only      ids of rows; or agents; or of fleet slots, burst, rest, checkpoint, moving; or hosts, such as none,runner-gvisor; separated by
              commas
  --json      with rows, hosts, environments and repositories: file for all figures and every sample
  --profile   with rows: folder for CPU profiles of our processes
  --before    with fleet, hosts and pages: a checkout of another version, installed, to put beside this one; of hosts those without
              runners
  --data-dir  with agents: where slipway agents install put them, .slipway of this folder unless said
  --help      this text
`

const parse = () => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        quick: { type: "boolean", default: false },
        keep: { type: "boolean", default: false },
        only: { type: "string", default: "" },
        profile: { type: "string" },
        "data-dir": { type: "string" },
        before: { type: "string" },
        json: { type: "string" },
        help: { type: "boolean", short: "h", default: false }
      }
    })
  } catch (error) {
    // Node goes on to explain how positional arguments that begin with a dash are written.
    const [fault = ""] = (error instanceof Error ? error.message : String(error)).split(/\. |\n/u)
    process.stderr.write(`bench: ${fault.replace(/\.$/u, "")}. See npm run bench -- --help.\n`)
    return null
  }
}

const given = parse()
if (given === null) process.exitCode = 1
else if (given.values.help) process.stdout.write(help())
else {
  const { before = null, "data-dir": dataDir = null, json = null, keep, profile = null, quick } = given.values
  const only = given.values.only.split(",").filter((name) => name !== "")
  const what = given.positionals.join(" ")
  const others: Readonly<Record<string, { readonly minutes: number; readonly run: () => Promise<void> }>> = {
    agents: { minutes: 30, run: async () => (await import("./agents/Agents.ts")).run({ quick, only, dataDir }) },
    fleet: { minutes: 90, run: async () => (await import("./fleet/Fleet.ts")).run({ quick, only, before }) },
    hosts: { minutes: 90, run: async () => (await import("./hosts/Hosts.ts")).run({ quick, only, before, json }) },
    environments: { minutes: 30, run: async () => (await import("./environments/Environments.ts")).run({ quick, json }) },
    pages: { minutes: 30, run: async () => (await import("./pages/Pages.ts")).run({ quick, before }) },
    repositories: {
      minutes: 60,
      run: async () => {
        if (!await (await import("./repositories/Repositories.ts")).run({ quick, json })) process.exitCode = 1
      }
    },
    traces: { minutes: 30, run: async () => (await import("./traces/Traces.ts")).run({ quick }) }
  }
  const other = Object.hasOwn(others, what) ? others[what] : undefined
  if (what === "" || groups.some(({ name }) => name === what)) {
    const isGood = await Driver.run({ group: what === "" ? null : what, quick, only, profile, json, keep })
    if (!isGood) process.exitCode = 1
  } else if (other !== undefined) {
    try {
      await Interruptible.within(other.minutes * 60, () => `all of ${what}`, other.run)
    } catch (error) {
      process.stderr.write(`bench: ${what}: ${error instanceof Error ? error.message : String(error)}\n`)
      process.exitCode = 1
    }
  } else {
    process.stderr.write(`bench: there is no ${what}. See npm run bench -- --help.\n`)
    process.exitCode = 1
  }
}

// An abandoned task may hold the process.
if (process.exitCode === 1) setTimeout(() => process.exit(), 1000).unref()
