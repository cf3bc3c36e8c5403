/**
 * Kernel limits of a sandbox: one control group each, version 2 where it is there, else version 1.
 *
 *     <parent>/slipway-<service>/<sandbox id>      in each hierarchy that is used
 *
 * A launcher writes its own id into `procs` before it becomes the box, so nothing of it ever runs outside.
 */
import { codeOf, ifAbsent } from "@slipway/domain/files/rules/SystemError"
import type { LimitsMet } from "@slipway/domain/sandbox/ports/SandboxHost"
import { access, constants, mkdir, readdir, readFile, rmdir, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as ProcessTable from "../node/ProcessTable.ts"

interface GroupLimits {
  readonly memoryBytes: number
  readonly processes: number
  /** Processors, e.g. 1.5. */
  readonly cpus: number
}

type Limit = "memory" | "processes" | "cpu"

export interface Groups {
  readonly version: 1 | 2
  /** The limits that the kernel enforces on this machine. */
  readonly limits: ReadonlySet<Limit>
  /** Makes the group, or finds it; sets its limits. Answers the files that a process writes itself into. */
  create(name: string, limits: GroupLimits): Promise<ReadonlyArray<string>>
  /** How often the kernel kept the group to its limits, since it was made. Nothing of a group that is not there. */
  met(name: string): Promise<LimitsMet>
  /** Kills what is in it. Answers whether anything was. */
  kill(name: string): Promise<boolean>
  /** Removes an empty group. */
  remove(name: string): Promise<void>
  readonly list: () => Promise<ReadonlyArray<string>>
  /** Removes the service's own group, unless some of its sandboxes are left. */
  readonly close: () => Promise<void>
}

/** Why there are none, as a sentence that says what to do. */
export interface NoGroups {
  readonly reason: string
}

/** For what the kernel need not do: nothing is concluded from its refusal. */
const tried = (promise: Promise<unknown>): Promise<void> => promise.then(() => {}, () => {})

/** For a file of a group that is removed at this moment the kernel answers `ENODEV`. */
const text = (file: string) => readFile(file, "utf8").catch((error: unknown) => codeOf(error) === "ENODEV" ? "" : ifAbsent("")(error))

/** A counter in a file of `name value` lines. */
const counted = async (file: string, name: string) => Number(new RegExp(`^${name} (\\d+)$`, "mu").exec(await text(file))?.[1] ?? 0)

const isWritable = (path: string) => access(path, constants.W_OK).then(() => true, () => false)

/** Ends what leaves a group busy: the kernel takes a moment to bury the dead. */
const removeFolder = async (folder: string): Promise<void> => {
  for (let attempt = 0;; attempt++) {
    try {
      return await rmdir(folder)
    } catch (error) {
      if (codeOf(error) === "ENOENT") return
      if (codeOf(error) !== "EBUSY" || attempt === 200) throw error
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
}

const processesIn = async (file: string) => (await text(file)).split("\n").filter((line) => line !== "").map(Number)

const killEach = async (file: string): Promise<boolean> => {
  let killed = false
  // A child forked in this round is found in the next one.
  for (let round = 0; round < 100; round++) {
    const pids = await processesIn(file)
    if (pids.length === 0) break
    killed = true
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL")
      } catch {
        // gone in this very moment
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return killed
}

const names = async (parent: string): Promise<ReadonlyArray<string>> =>
  (await readdir(parent, { withFileTypes: true }).catch(ifAbsent([]))).filter((entry) => entry.isDirectory()).map(({ name }) => name)

/** How services name their groups (`ServiceFolder`). */
const SERVICE = /^slipway-[0-9a-f]{12}$/u

/** A box may be about to enter a younger group. */
const LEFT_AFTER_MS = 3_600_000

const isLeft = (folder: string) => stat(folder).then(({ mtimeMs }) => mtimeMs < Date.now() - LEFT_AFTER_MS, ifAbsent(false))

/**
 * Removes the groups that other services of this machine left, whose data folder may be lost. The kernel removes no group that has a
 * process in it, and a service makes its groups again.
 */
const removeLeft = async (parent: string, service: string): Promise<void> => {
  for (const other of await names(parent)) {
    if (!SERVICE.test(other) || other === service) continue
    const folder = join(parent, other)
    const isOld = await isLeft(folder)
    for (const name of await names(folder)) if (await isLeft(join(folder, name))) await tried(rmdir(join(folder, name)))
    if (isOld) await tried(rmdir(folder))
  }
}

const CPU_PERIOD_MICROS = 100_000

/**
 * The weight of all boxes of a service when processors are short: a quarter of one process outside of boxes, so that the service and its
 * database do not wait for them.
 */
const WEIGHT = { shares: 256, weight: 25 }

const quota = (cpus: number) => Math.max(1_000, Math.round(cpus * CPU_PERIOD_MICROS))

/** `own`: our group of this hierarchy, as `/proc/self/cgroup` has it. In a container it may be named as its host sees it. */
const parentOf = async (mount: string, own: string): Promise<string | undefined> => {
  for (const parent of [join(mount, own), mount]) if (await isWritable(parent)) return parent
  return undefined
}

const ownGroups = async () =>
  new Map(
    (await text("/proc/self/cgroup")).trim().split("\n").flatMap((line) => {
      const [, controllers = "", path = "/"] = /^\d+:([^:]*):(.*)$/u.exec(line) ?? []
      return controllers === "" ? [["", path] as const] : controllers.split(",").map((controller) => [controller, path] as const)
    })
  )

/** Version 1: each controller has a hierarchy of its own. */
const version1 = async (root: string, service: string): Promise<Groups | NoGroups> => {
  const own = await ownGroups()
  const parents = new Map<string, string>()
  for (const controller of ["memory", "pids", "cpu"]) {
    const parent = await parentOf(join(root, controller), own.get(controller) ?? "/")
    if (parent === undefined) continue
    const folder = join(parent, service)
    if (await mkdir(folder, { recursive: true }).then(() => true, () => false)) parents.set(controller, folder)
    await removeLeft(parent, service)
  }
  const processors = parents.get("cpu")
  if (processors !== undefined) await writeFile(join(processors, "cpu.shares"), `${WEIGHT.shares}`)
  if (parents.size === 0) {
    return { reason: `No control group below ${root} can be written to: run the service as root, or mount it writable.` }
  }
  const of = (name: string) => [...parents.values()].map((parent) => join(parent, name))
  const controls = { memory: "memory", pids: "processes", cpu: "cpu" } as const
  return {
    version: 1,
    limits: new Set([...parents.keys()].map((controller) => controls[controller as keyof typeof controls])),
    create: async (name, { cpus, memoryBytes, processes }) => {
      const values: Record<string, ReadonlyArray<readonly [file: string, value: number]>> = {
        memory: [["memory.limit_in_bytes", memoryBytes]],
        pids: [["pids.max", processes]],
        cpu: [["cpu.cfs_period_us", CPU_PERIOD_MICROS], ["cpu.cfs_quota_us", quota(cpus)]]
      }
      for (const [controller, parent] of parents) {
        await mkdir(join(parent, name), { recursive: true })
        for (const [file, value] of values[controller] ?? []) await writeFile(join(parent, name, file), `${value}`)
      }
      // Swap counts with memory where the kernel counts it.
      const memory = parents.get("memory")
      if (memory !== undefined) await tried(writeFile(join(memory, name, "memory.memsw.limit_in_bytes"), `${memoryBytes}`))
      return of(name).map((folder) => join(folder, "cgroup.procs"))
    },
    met: async (name) => {
      const counter = async (controller: string, file: string, counter: string) => {
        const parent = parents.get(controller)
        return parent === undefined ? 0 : counted(join(parent, name, file), counter)
      }
      return {
        outOfMemory: await counter("memory", "memory.oom_control", "oom_kill"),
        tooManyProcesses: await counter("pids", "pids.events", "max")
      }
    },
    kill: async (name) => (await Promise.all(of(name).map((folder) => killEach(join(folder, "cgroup.procs"))))).includes(true),
    remove: async (name) => {
      for (const folder of of(name)) await removeFolder(folder)
    },
    list: async () => [...new Set((await Promise.all([...parents.values()].map(names))).flat())],
    close: async () => {
      for (const parent of parents.values()) await tried(rmdir(parent))
    }
  }
}

const CONTROLLERS = ["memory", "pids", "cpu"]

const enabledIn = async (parent: string) => (await text(join(parent, "cgroup.subtree_control"))).trim().split(/\s+/u)

/** Gives the group's children what controllers it has itself. Answers those they have then. */
const enable = async (parent: string): Promise<ReadonlyArray<string>> => {
  const already = await enabledIn(parent)
  for (const controller of CONTROLLERS.filter((controller) => !already.includes(controller))) {
    await tried(writeFile(join(parent, "cgroup.subtree_control"), `+${controller}`))
  }
  return enabledIn(parent)
}

/** Whether the process is this one, or a descendant of this one. */
const isOurs = (pid: number): boolean => {
  for (let one = pid; one > 1; one = ProcessTable.parentOf(one) ?? 0) if (one === process.pid) return true
  return false
}

/**
 * Version 2: one hierarchy. A group with processes of its own cannot limit its children, except for the root, so where our
 * own group is the only place, this process moves into a leaf of it first.
 */
const version2 = async (root: string, service: string): Promise<Groups | NoGroups> => {
  const own = join(root, (await ownGroups()).get("") ?? "/")
  const none = {
    reason: `No control group below ${root} can be written to: run the service as root, or as a systemd service with Delegate=yes.`
  }
  for (const parent of [own, root]) {
    if (!(await isWritable(parent))) continue
    let enabled = await enable(parent)
    if (!enabled.includes("pids") && parent === own && own !== root) {
      const members = await processesIn(join(own, "cgroup.procs"))
      // Others than us and what we started were put there by somebody else.
      if (members.every(isOurs)) {
        const move = async () => {
          await mkdir(join(own, "slipway-service"))
          for (const member of members) await tried(writeFile(join(own, "slipway-service", "cgroup.procs"), `${member}`))
        }
        await tried(move())
        enabled = await enable(parent)
      }
    }
    if (!enabled.includes("memory") || !enabled.includes("pids")) continue
    const folder = join(parent, service)
    await mkdir(folder, { recursive: true })
    await removeLeft(parent, service)
    enabled = await enable(folder)
    if (enabled.includes("cpu")) await writeFile(join(folder, "cpu.weight"), `${WEIGHT.weight}`)
    const of = (name: string) => join(folder, name)
    return {
      version: 2,
      limits: new Set<Limit>(
        enabled.flatMap((controller): ReadonlyArray<Limit> =>
          controller === "memory" || controller === "cpu" ? [controller] : controller === "pids" ? ["processes"] : []
        )
      ),
      create: async (name, { cpus, memoryBytes, processes }) => {
        await mkdir(of(name), { recursive: true })
        const set = (file: string, value: string) => writeFile(join(of(name), file), value)
        if (enabled.includes("memory")) {
          await set("memory.max", `${memoryBytes}`)
          await tried(set("memory.swap.max", "0"))
          // One process that is too big ends them all, not a random one.
          await tried(set("memory.oom.group", "1"))
        }
        if (enabled.includes("pids")) await set("pids.max", `${processes}`)
        if (enabled.includes("cpu")) await set("cpu.max", `${quota(cpus)} ${CPU_PERIOD_MICROS}`)
        return [join(of(name), "cgroup.procs")]
      },
      met: async (name) => ({
        outOfMemory: await counted(join(of(name), "memory.events"), "oom_kill"),
        tooManyProcesses: await counted(join(of(name), "pids.events"), "max")
      }),
      kill: async (name) => {
        const killed = (await processesIn(join(of(name), "cgroup.procs"))).length > 0
        await tried(writeFile(join(of(name), "cgroup.kill"), "1"))
        return (await killEach(join(of(name), "cgroup.procs"))) || killed
      },
      remove: (name) => removeFolder(of(name)),
      list: () => names(folder),
      close: () => tried(rmdir(folder))
    }
  }
  return none
}

/** The groups that this process can make. `service` tells the groups of services apart that share the machine. */
export const open = async (service: string, root = "/sys/fs/cgroup"): Promise<Groups | NoGroups> => {
  const isVersion2 = (await text(join(root, "cgroup.controllers"))) !== ""
  return isVersion2 ? version2(root, service) : version1(root, service)
}
