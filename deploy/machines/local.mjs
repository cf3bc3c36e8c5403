/**
 * Machines for sandboxes on this machine, for SLIPWAY_ISOLATION=runner: an example of the program that docs/operating/machines.md asks for.
 *
 *     local.mjs ensure|remove|list     an order as JSON on standard input, an answer as JSON on standard output
 *
 * What it makes them of it is told by its environment, which a script of the operator's sets:
 *
 *     MACHINES_KIND      bubblewrap, gvisor or docker
 *     MACHINES_FOLDER    where it keeps what is in them; only root may enter it. Short: paths of sockets have 107 bytes
 *     MACHINES_RUNNER    Runner.main.js, as a machine has it
 *     MACHINES_NODE      Node 24, as a machine has it. This one's where it is left out
 *     MACHINES_SEES      folders of this machine that machines see read-only, between colons: the runner, Node, installed agents
 *     MACHINES_IMAGE     the image of docker
 *     MACHINES_SECCOMP   a filter of system calls: bubblewrap.bpf, gvisor.json or docker.json of machines/filters,
 *                        which the service writes into its data folder
 *     MACHINES_NETWORKS  namespace:address between commas, for bubblewrap: each machine has one of these network namespaces to itself,
 *                        and listens on that address. Without it machines have no network, and listen on a socket of this machine
 *
 * What each machine may take, with the runner in it:
 *
 *     MACHINES_MEMORY_BYTES        4 GiB, with what is in /tmp and /dev/shm, and no swap
 *     MACHINES_MEMORY_FILES_BYTES  512 MiB of them in /tmp, and as many in /dev/shm
 *     MACHINES_PROCESSES           1024, with threads
 *     MACHINES_CPUS                2 processors; 1.5 is one and a half
 *     MACHINES_DISK_BYTES          what trees and home may have: then they are a file system of their own, in a file, which takes
 *                                  e2fsprogs and loop devices. Without it nothing bounds what sandboxes write below MACHINES_FOLDER
 *     MACHINES_GROUPS              /sys/fs/cgroup, where control groups of version 1 or 2 can be made. Docker makes its own. Where they
 *                                  cannot be made, it says so on standard error, and memory, processors and processes (but those
 *                                  of gVisor) have no bound
 */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import {
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { availableParallelism } from "node:os"
import path from "node:path"

const { env } = process
const kind = env.MACHINES_KIND
const folder = env.MACHINES_FOLDER
const node = env.MACHINES_NODE ?? process.execPath
const sees = (env.MACHINES_SEES ?? "").split(":").filter((seen) => seen !== "")
const networks = (env.MACHINES_NETWORKS ?? "").split(",").filter((network) => network !== "")
const limits = {
  memory: Number(env.MACHINES_MEMORY_BYTES ?? 4 * 2 ** 30),
  memoryFiles: Number(env.MACHINES_MEMORY_FILES_BYTES ?? 2 ** 29),
  processes: Number(env.MACHINES_PROCESSES ?? 1024),
  cpus: Math.min(Number(env.MACHINES_CPUS ?? 2), availableParallelism())
}
const groups = env.MACHINES_GROUPS ?? "/sys/fs/cgroup"

/** Where a machine has its settings, and its socket: what only its root enters. */
const RUN = "/run/slipway-runner"
/** All that a runner needs to be root for: to become the sandbox's user, to end its processes, to read and write its home. */
const RIGHTS = ["CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER"]
const READY_MILLIS = 60_000

const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis))

/** Whole or as it was. */
const write = (file, text) => {
  writeFileSync(`${file}.making`, text, { mode: 0o600 })
  renameSync(`${file}.making`, file)
}

const readJson = (file) => {
  try {
    return JSON.parse(readFileSync(file, "utf8"))
  } catch {
    return undefined
  }
}

/**
 * Processes that make a machine have its folder in their arguments: also those that a killed call of this program left. What a sandbox
 * writes into its own arguments says nothing: those of gVisor's programs are not this machine's, others are not root's.
 */
const processesOf = (machine) =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).map(Number).filter((pid) => {
    try {
      return pid !== process.pid && (kind === "gvisor" || statSync(`/proc/${pid}`).uid === 0) &&
        readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(`${machine}/`)
    } catch {
      return false // ended meanwhile
    }
  })

/** Whether repeated looks see none: a process that becomes another program has no arguments for a moment. */
const isEmpty = async (machine) => {
  for (let looks = 0; looks < 10; looks++) {
    if (processesOf(machine).length > 0) return false
    await sleep(5)
  }
  return true
}

const kill = (pid) => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // ended meanwhile
  }
}

const endProcesses = async (machine) => {
  for (const until = Date.now() + 10_000;; await sleep(5)) {
    const left = processesOf(machine)
    if (left.length === 0 && await isEmpty(machine)) return
    if (Date.now() > until) throw new Error(`processes ${left.join(", ")} survive SIGKILL`)
    left.forEach(kill)
  }
}

/** Of version 1 each controller has a hierarchy of its own. */
const isUnified = existsSync(path.join(groups, "cgroup.controllers"))
const CONTROLLERS = ["memory", "pids", "cpu"]
const CPU_PERIOD_MICROS = 100_000

const groupsOf = ({ installation, sandbox }) =>
  (isUnified ? [groups] : CONTROLLERS.map((controller) => path.join(groups, controller)))
    .map((hierarchy) => path.join(hierarchy, "slipway-machines", `${installation}-${sandbox}`))

/** What a group is told, by its files. Swap is counted by few kernels of version 1. */
const boundsOf = (group, processes) => {
  const quota = Math.round(limits.cpus * CPU_PERIOD_MICROS)
  const all = {
    memory: isUnified
      ? [["memory.max", limits.memory], ["memory.swap.max", 0, "if there"]]
      : [["memory.limit_in_bytes", limits.memory], ["memory.memsw.limit_in_bytes", limits.memory, "if there"]],
    pids: [["pids.max", processes]],
    cpu: isUnified
      ? [["cpu.max", `${quota} ${CPU_PERIOD_MICROS}`]]
      : [["cpu.cfs_period_us", CPU_PERIOD_MICROS], ["cpu.cfs_quota_us", quota]]
  }
  return isUnified ? Object.values(all).flat() : all[CONTROLLERS.find((controller) => group.startsWith(path.join(groups, controller)))]
}

/** Makes the machine's control groups. Answers the files that a process writes itself into. */
const makeGroups = (order, processes = limits.processes) =>
  groupsOf(order).flatMap((group) => {
    const above = [path.resolve(group, "../.."), path.dirname(group)]
    try {
      if (!existsSync(path.join(above[0], "cgroup.procs"))) throw new Error(`${above[0]} is no control group`)
      mkdirSync(group, { recursive: true })
      if (isUnified) {
        for (const parent of above) {
          writeFileSync(path.join(parent, "cgroup.subtree_control"), CONTROLLERS.map((controller) => `+${controller}`).join(" "))
        }
      }
      for (const [file, value, isOptional] of boundsOf(group, processes)) {
        if (!isOptional || existsSync(path.join(group, file))) writeFileSync(path.join(group, file), `${value}`)
      }
      return path.join(group, "cgroup.procs")
    } catch (error) {
      process.stderr.write(`no bound: ${error.message}\n`)
      return []
    }
  })

/** With what is left in them. The kernel takes a moment to bury the dead. */
const removeGroups = async (order) => {
  for (const group of groupsOf(order)) {
    for (const until = Date.now() + 5000; existsSync(group); await sleep(5)) {
      try {
        readFileSync(path.join(group, "cgroup.procs"), "utf8").split("\n").filter((pid) => pid !== "").map(Number).forEach(kill)
        rmdirSync(group)
      } catch (error) {
        if (error.code !== "EBUSY" || Date.now() > until) throw error
      }
    }
  }
}

/** The command that writes itself into these groups first, so that nothing of it ever runs outside. */
const within = (joined, command) =>
  joined.length === 0 ? command : ["sh", "-c", `${joined.map((file) => `echo $$ > '${file}' && `).join("")}exec "$@"`, "sh", ...command]

const imageOf = (machine) => path.join(machine, "disk.img")
const isMounted = (at) => existsSync(at) && statSync(at).dev !== statSync(path.dirname(at)).dev

/** Where its sandbox's files are: on a disk of their own where the machine was made with one. */
const filesOf = (machine) => {
  const [image, at] = [imageOf(machine), path.join(machine, "disk")]
  if (!existsSync(image)) {
    // A machine made without a disk of its own has its files already.
    if (env.MACHINES_DISK_BYTES === undefined || existsSync(path.join(machine, "workspace"))) return machine
    writeFileSync(`${image}.making`, "", { mode: 0o600 })
    truncateSync(`${image}.making`, Number(env.MACHINES_DISK_BYTES))
    execFileSync("mkfs.ext4", ["-q", "-F", `${image}.making`], { stdio: ["ignore", "ignore", "pipe"] })
    renameSync(`${image}.making`, image)
  }
  mkdirSync(at, { recursive: true, mode: 0o700 })
  if (!isMounted(at)) execFileSync("mount", ["-o", "loop,nosuid,nodev", image, at], { stdio: ["ignore", "ignore", "pipe"] })
  return at
}

/** What a machine has of its own, by where it has it. The runner's own is not where its sandbox can leave no room for it. */
const foldersOf = (machine, { settings }, files) => ({
  [settings.tree]: path.join(files, "workspace"),
  [path.dirname(settings.home)]: path.join(files, "homes"),
  ...Object.fromEntries(settings.folders.map((folder) => [folder, path.join(files, folder.slice(1).replaceAll("/", "-"))])),
  [settings.state]: path.join(machine, "state"),
  [RUN]: path.join(machine, "run")
})

/** What it has of this machine's system: links into /usr, or folders of their own, and what is public in /etc. */
const SYSTEM = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"].filter((path) => existsSync(path))
const isLink = (path) => lstatSync(path).isSymbolicLink()
const ETC = ["alternatives", "ca-certificates", "ld.so.cache", "localtime", "nsswitch.conf", "os-release", "protocols", "services",
  "ssl/certs", ...readdirSync("/etc").filter((name) => /^(?:java|maven|python|ruby|php|perl)(?:[.\d-][\w.-]*)?$/u.test(name))]
  .map((name) => `/etc/${name}`)
  .filter((path) => existsSync(path))

/** Folders on the way to these, the outermost first: bubblewrap would close those that it makes by itself. */
const waysTo = (places) => {
  const ways = places.flatMap((at) => at.split("/").slice(1, -1).map((_, i, names) => `/${names.slice(0, i + 1).join("/")}`))
  return [...new Set(ways)].sort()
}

/** Programs die without a name for their user. */
const namesIn = (machine, { home, user = { uid: 0, gid: 0 } }) => {
  const names = {
    passwd: `root:x:0:0::/nonexistent:/usr/sbin/nologin\nagent:x:${user.uid}:${user.gid}::${home}:/bin/sh\n`,
    group: `root:x:0:\nagent:x:${user.gid}:\n`,
    hosts: "127.0.0.1 localhost\n::1 localhost\n"
  }
  mkdirSync(path.join(machine, "etc"), { recursive: true })
  return Object.entries(names).map(([name, text]) => {
    const file = path.join(machine, "etc", name)
    writeFileSync(file, text, { mode: 0o644 })
    return [file, `/etc/${name}`]
  })
}

/** Starts a process that outlives this one, with files for what it says. */
const startApart = (machine, [program, ...args], more = []) => {
  const said = openSync(path.join(machine, "said"), "w", 0o600)
  const complaints = openSync(path.join(machine, "complaints"), "w", 0o600)
  const child = spawn(program, args, { cwd: "/", env: { PATH: env.PATH }, detached: true, stdio: ["ignore", said, complaints, ...more] })
  child.on("error", (error) => {
    writeFileSync(path.join(machine, "complaints"), `${error.message}\n`)
  })
  child.unref()
}

/** The runner's first line, once it listens. */
const untilReady = async (machine) => {
  for (const until = Date.now() + READY_MILLIS;; await sleep(10)) {
    const line = readFileSync(path.join(machine, "said"), "utf8").split("\n")
    if (line.length > 1) return JSON.parse(line[0])
    if (Date.now() > until || await isEmpty(machine)) {
      throw new Error(`the runner did not start: ${readFileSync(path.join(machine, "complaints"), "utf8").trim().slice(-200)}`)
    }
  }
}

const bubblewrap = {
  async start(machine, order, folders, network) {
    const more = env.MACHINES_SECCOMP === undefined ? [] : [openSync(env.MACHINES_SECCOMP, "r")]
    const inMemory = (at) => ["--perms", "1777", "--size", `${limits.memoryFiles}`, "--tmpfs", at]
    const command = [
      ...network === undefined ? [] : ["ip", "netns", "exec", network.split(":")[0]],
      ...["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
      ...[...network === undefined ? ["--unshare-net"] : [], ...more.length > 0 ? ["--seccomp", "3"] : []],
      ...["--new-session", "--hostname", "sandbox", "--clearenv"],
      ...["--cap-drop", "ALL", ...RIGHTS.flatMap((right) => ["--cap-add", right])],
      ...["--proc", "/proc", "--dev", "/dev", ...["/dev/shm", "/tmp"].flatMap(inMemory)],
      ...waysTo([...ETC, ...sees, ...Object.keys(folders)]).flatMap((at) => ["--perms", "0755", "--dir", at]),
      ...["--ro-bind", "/usr", "/usr", ...SYSTEM.flatMap((at) => isLink(at) ? ["--symlink", readlinkSync(at), at] : ["--ro-bind", at, at])],
      ...ETC.flatMap((at) => ["--ro-bind", at, at]),
      ...namesIn(machine, order.settings).flatMap(([from, at]) => ["--ro-bind", from, at]),
      ...sees.flatMap((at) => ["--ro-bind", at, at]),
      ...Object.entries(folders).flatMap(([at, from]) => ["--bind", from, at]),
      ...["--remount-ro", "/dev", "--remount-ro", "/", "--", node, env.MACHINES_RUNNER, `${RUN}/settings.json`]
    ]
    startApart(machine, within(makeGroups(order), command), more)
    return untilReady(machine)
  },
  isThere: async (machine) => !(await isEmpty(machine)),
  async end(machine, order) {
    await endProcesses(machine)
    await removeGroups(order)
  }
}

/**
 * Of threads that gVisor (2022-12) has: 150 at rest and some 7 for each process, which it counts itself. A machine that gets no more
 * ends, so this one is a bound behind that.
 */
const threadsOfGvisor = (processes) => 512 + 8 * processes

const gvisor = {
  async start(machine, order, folders) {
    const [bundle, state] = [path.join(machine, "bundle"), path.join(machine, "gvisor")]
    const root = path.join(bundle, "root")
    rmSync(bundle, { recursive: true, force: true })
    const bind = (source, destination, mode) => ({ destination, type: "bind", source, options: ["rbind", mode, "nosuid", "nodev"] })
    const files = namesIn(machine, order.settings)
    const shown = [
      { destination: "/proc", type: "proc", source: "proc" },
      bind("/usr", "/usr", "ro"),
      ...SYSTEM.filter((at) => !isLink(at)).map((at) => bind(at, at, "ro")),
      ...ETC.map((at) => bind(at, at, "ro")),
      ...files.map(([from, at]) => bind(from, at, "ro")),
      ...["/dev/shm", "/tmp"].map((at) => ({
        destination: at,
        type: "tmpfs",
        source: "tmpfs",
        options: ["nosuid", "nodev", "mode=1777", `size=${limits.memoryFiles}`]
      })),
      ...sees.map((at) => bind(at, at, "ro")),
      ...Object.entries(folders).map(([at, from]) => bind(from, at, "rw"))
    ]
    // What mounts lie on.
    for (const { destination, source, type } of shown) {
      const at = path.join(root, destination)
      const isFile = type === "bind" && !lstatSync(source).isDirectory()
      mkdirSync(isFile ? path.dirname(at) : at, { recursive: true })
      if (isFile) writeFileSync(at, "")
    }
    for (const at of ["/sys", "/dev"]) mkdirSync(path.join(root, at), { recursive: true })
    for (const at of SYSTEM.filter(isLink)) symlinkSync(readlinkSync(at), path.join(root, at))
    // The shell takes in whose parents have ended, which Node does not.
    const args = ["/bin/sh", "-c", `"$@" & wait $!`, "runner", node, env.MACHINES_RUNNER, `${RUN}/settings.json`]
    const rights = Object.fromEntries(["bounding", "effective", "permitted"].map((set) => [set, RIGHTS]))
    write(
      path.join(bundle, "config.json"),
      JSON.stringify({
        ociVersion: "1.0.2",
        hostname: "sandbox",
        root: { path: root, readonly: true },
        process: {
          user: { uid: 0, gid: 0 },
          args,
          env: ["PATH=/usr/bin:/bin"],
          cwd: "/",
          capabilities: rights,
          noNewPrivileges: true,
          rlimits: [{ type: "RLIMIT_NPROC", hard: limits.processes, soft: limits.processes }]
        },
        mounts: shown,
        linux: {
          namespaces: ["pid", "network", "mount", "ipc", "uts"].map((type) => ({ type })),
          ...env.MACHINES_SECCOMP === undefined ? {} : { seccomp: JSON.parse(readFileSync(env.MACHINES_SECCOMP, "utf8")) }
        }
      })
    )
    mkdirSync(state, { recursive: true, mode: 0o700 })
    startApart(
      machine,
      within(makeGroups(order, threadsOfGvisor(limits.processes)), [
        ...["runsc", "--root", state, "--network=none", "--host-uds=create", "--overlay2=none", "--ignore-cgroups", "--oci-seccomp"],
        ...["run", "--bundle", bundle, order.sandbox]
      ])
    )
    return untilReady(machine)
  },
  isThere: async (machine) => !(await isEmpty(machine)),
  async end(machine, order) {
    await endProcesses(machine)
    rmSync(path.join(machine, "gvisor"), { recursive: true, force: true })
    await removeGroups(order)
  }
}

const nameOf = ({ installation, sandbox }) => `slipway-${installation}-${sandbox}`

const docker = {
  async start(_, order, folders) {
    const name = nameOf(order)
    const labels = { "slipway.installation": order.installation, "slipway.sandbox": order.sandbox, "slipway.fence": order.fence }
    execFileSync("docker", [
      ...["run", "--detach", "--init", "--name", name, "--network", "none", "--read-only"],
      ...["--tmpfs", `/tmp:mode=1777,exec,size=${limits.memoryFiles}`, "--shm-size", `${limits.memoryFiles}`],
      ...["--memory", `${limits.memory}`, "--memory-swap", `${limits.memory}`],
      ...["--pids-limit", `${limits.processes}`, "--cpus", `${limits.cpus}`],
      ...env.MACHINES_SECCOMP === undefined ? [] : ["--security-opt", `seccomp=${env.MACHINES_SECCOMP}`],
      ...["--cap-drop", "ALL", ...RIGHTS.flatMap((right) => ["--cap-add", right]), "--security-opt", "no-new-privileges"],
      ...Object.entries(labels).flatMap(([label, value]) => ["--label", `${label}=${value}`]),
      ...sees.flatMap((at) => ["--volume", `${at}:${at}:ro`]),
      ...Object.entries(folders).flatMap(([at, from]) => ["--volume", `${from}:${at}`]),
      ...[env.MACHINES_IMAGE, node, env.MACHINES_RUNNER, `${RUN}/settings.json`]
    ], { stdio: ["ignore", "ignore", "inherit"] })
    for (const until = Date.now() + READY_MILLIS;; await sleep(50)) {
      const { stdout } = spawnSync("docker", ["logs", name], { encoding: "utf8" })
      if (stdout.includes("\n")) return JSON.parse(stdout.split("\n")[0])
      if (!docker.isThere(undefined, order) || Date.now() > until) throw new Error("the runner did not start")
    }
  },
  isThere: (_, order) =>
    spawnSync("docker", ["inspect", "--format", "{{.State.Running}}", nameOf(order)], { encoding: "utf8" }).stdout === "true\n",
  end: (_, order) => execFileSync("docker", ["rm", "--force", nameOf(order)], { stdio: ["ignore", "ignore", "pipe"] })
}

const how = { bubblewrap, gvisor, docker }[kind]

/** What is known of a machine: for which certificate it was made, and where its runner listens. */
const noteOf = (machine) => path.join(machine, "machine.json")

const remove = async (machine, order) => {
  if (!existsSync(machine)) return
  await how.end(machine, order)
  // At once, also where somebody of this machine looks at a file of it.
  while (isMounted(path.join(machine, "disk"))) execFileSync("umount", ["--lazy", path.join(machine, "disk")])
  rmSync(machine, { recursive: true, force: true })
}

const certificateOf = ({ settings }) => createHash("sha256").update(settings.identity.certificate).digest("hex")

/** A network that no other machine has. */
const networkFor = (all) => {
  if (networks.length === 0) return undefined
  const taken = readdirSync(all).map((name) => readJson(noteOf(path.join(all, name)))?.network)
  const free = networks.find((network) => !taken.includes(network))
  if (free === undefined) throw new Error("all networks are taken")
  return free
}

const ensure = async (machine, order) => {
  const note = readJson(noteOf(machine))
  const certificate = certificateOf(order)
  if (note?.certificate !== certificate) await remove(machine, order)
  else if (note.address !== undefined && await how.isThere(machine, order)) return note.address
  else await how.end(machine, order)
  mkdirSync(machine, { recursive: true, mode: 0o700 })
  const network = note?.certificate === certificate ? note.network : networkFor(path.dirname(machine))
  const noted = { certificate, fence: order.fence, network }
  write(noteOf(machine), JSON.stringify(noted))
  const folders = foldersOf(machine, order, filesOf(machine))
  for (const folder of Object.values(folders)) mkdirSync(folder, { recursive: true, mode: 0o700 })
  const settings = path.join(folders[RUN], "settings.json")
  const listen = network === undefined ? { path: `${RUN}/socket` } : { host: network.split(":")[1], port: 0 }
  write(settings, JSON.stringify({ ...order.settings, listen }))
  // Of a runner that was killed: one in gVisor may make sockets, and look at none.
  rmSync(path.join(folders[RUN], "socket"), { force: true })
  const told = await how.start(machine, order, folders, network)
  const address = "path" in told ? { path: path.join(folders[RUN], "socket") } : { host: told.host, port: told.port }
  // The runner has read it.
  rmSync(settings)
  write(noteOf(machine), JSON.stringify({ ...noted, address }))
  return address
}

const main = async (call) => {
  const order = JSON.parse(readFileSync(0, "utf8"))
  const all = path.join(folder, order.installation)
  mkdirSync(all, { recursive: true, mode: 0o700 })
  switch (call) {
    case "ensure":
      return ensure(path.join(all, order.sandbox), order)
    case "remove":
      await remove(path.join(all, order.sandbox), order)
      return {}
    case "list":
      return readdirSync(all)
    default:
      throw new Error("local.mjs ensure|remove|list")
  }
}

try {
  process.stdout.write(`${JSON.stringify(await main(process.argv[2]))}\n`)
} catch (error) {
  // What it read is a secret, which a parser would quote.
  process.stderr.write(`${error instanceof SyntaxError ? "what it read is no JSON" : error.message}\n`)
  process.exitCode = 1
}
