/**
 * Follows what every sandbox's files have to be, from what the log says and what is seen of disks and checkpoints, and says which
 * rule is broken. It never asks the code that is under test.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { hasSession, remembered } from "@slipway/domain/memory/sandbox/AgentRuntimeMemory"
import type { Creation } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent, SandboxEventOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { Process } from "./Timeline.ts"
import type { Told } from "./Told.ts"
import type { Trace } from "./Trace.ts"

/** All files of a sandbox's trees on one disk, as text that is equal for equal files. */
export type Files = string

/** A disk of a machine. A disk that comes back empty counts as another disk. */
export interface Disk {
  filesOf(id: SandboxId): Files
  /** The prompts that the agent of a session remembers. */
  remembered(home: string, session: string): ReadonlyArray<string>
  /** Whether an agent can resume it. */
  hasSession(home: string, session: string): boolean
}

/** The known state of one sandbox's files. */
interface Known {
  /** The expected files while no agent is at work; `null`: any files. */
  files: Files | null
  /** The disk that has all of them; `null`: none had them yet. */
  disk: Disk | null
  /** The disk of the worker that has the lease. */
  holder: Disk | null
  /** Whether the worker was told that its machine has them, and it does. */
  stays: boolean
  /** A turn that an agent was at has ended, and no checkpoint was recorded since, nor why there is none. */
  owes: boolean
  /** Something that a turn which ended left is in no checkpoint. */
  alone: boolean
  /** The prompts of the turns that began on the way to what the files are; `null`: whatever they are. */
  said: ReadonlyArray<string> | null
  /** By number: what was recorded. */
  readonly checkpoints: Map<number, { readonly files: Files; readonly said: Known["said"] }>
  /** The files of the newest put, by fence and number. */
  readonly puts: Map<string, Files>
  /** The files that a process read last. */
  readonly reads: Map<Process, Files>
  /** Where a restore goes on, or ended with its process: there are no trees. */
  readonly replaced: Set<Disk>
}

export class TreesWitness {
  /** Checkpoints with a bit changed after they were put, as `<sandbox>/<number>`. */
  readonly damaged = new Set<string>()
  /**
   * The damaged checkpoints that were given out since, cut, changed, or as the bytes of another, as `<sandbox>/<number> to <worker>`:
   * another worker may have read them before.
   */
  readonly spoilt = new Set<string>()
  /** The sandboxes that agents work on, by the process that gave them the work. */
  readonly #atWork = new Map<Process, Set<SandboxId>>()
  readonly #known = new Map<SandboxId, Known>()
  readonly #trace: Trace
  /** The first files of a repository, by the path below its folder. */
  readonly #start: Readonly<Record<string, string>>

  constructor(trace: Trace, start: (repo: string) => Readonly<Record<string, string>>, repos: ReadonlyArray<string>) {
    this.#trace = trace
    this.#start = Object.fromEntries(
      repos.flatMap((repo) => Object.entries(start(repo)).map(([path, content]) => [`${folderOf(repo)}/${path}`, content]))
    )
  }

  /** A worker was given the lease. `stays`: it was told that its machine has the files. */
  leased(id: SandboxId, disk: Disk | null, stays: boolean): void {
    const known = this.#known.get(id)
    if (known === undefined) return
    known.stays = stays && (disk === null || !known.replaced.has(disk))
    known.holder = disk
  }

  /** Trees on this disk are replaced, or no longer: whatever came of it, they are there. */
  replaces(id: SandboxId, disk: Disk, isReplaced: boolean): void {
    const replaced = this.#known.get(id)?.replaced
    if (isReplaced) replaced?.add(disk)
    else replaced?.delete(disk)
  }

  /** An agent that this process gave a prompt works on it, or has stopped. */
  works(id: SandboxId, process: Process, isAtWork: boolean): void {
    const at = this.#atWork.get(process) ?? new Set()
    this.#atWork.set(process, at)
    if (isAtWork) at.add(id)
    else at.delete(id)
  }

  /** All files were read for a checkpoint. */
  read(id: SandboxId, process: Process, files: Files): void {
    this.#rule("no agent is at work on files that are read for a checkpoint", this.#atWork.get(process)?.has(id) !== true, id)
    this.#known.get(id)?.reads.set(process, files)
  }

  /** The files that were read last went into a checkpoint of this number. */
  put(id: SandboxId, process: Process, fence: number, checkpoint: number): void {
    const known = this.#known.get(id)
    const files = known?.reads.get(process)
    if (files !== undefined) known?.puts.set(`${fence} ${checkpoint}`, files)
  }

  /** An agent is given a prompt, on this disk. */
  prompted(id: SandboxId, turn: string, disk: Disk): void {
    const known = this.#known.get(id)
    if (known === undefined) return
    const files = disk.filesOf(id)
    this.#rule(
      "an agent finds the files as the turns before it left them",
      known.files === null || files === known.files,
      `${id} ${turn}: ${files}, not ${known.files}`
    )
    known.files = null
    known.disk = disk
  }

  /** An agent was told this in the middle of a turn. */
  steered(id: SandboxId, text: string): void {
    const known = this.#known.get(id)
    if (known !== undefined) known.said = known.said === null ? null : [...known.said, text]
  }

  /** An agent goes on with a conversation, or is told of one, in which these prompts are. */
  recalls(id: SandboxId, prompts: ReadonlyArray<string>): void {
    const said = this.#known.get(id)?.said ?? null
    if (said === null) return
    const undone = prompts.filter((prompt) => !said.includes(prompt))
    this.#rule("an agent knows nothing of turns that its files know nothing of", undone.length === 0, `${id}: ${undone.join()}`)
    if (prompts.length > 0) this.#trace.count("conversations that went on")
  }

  /** Takes note of an event. `before`: what the events before it say; `fence` and `worker`: of the newest lease. */
  record(before: Told, event: SandboxEvent, { fence, worker }: { readonly fence: number; readonly worker: string | null }): void {
    const { id } = before.creation
    const known = this.#known.get(id) ?? this.#first(before.creation)
    this.#known.set(id, known)
    switch (event.type) {
      case "turn.started":
        this.#rule("an ended turn has its checkpoint before the next one starts", !known.owes, `${id} ${event.turn_id}`)
        return this.steered(id, event.data.text)
      case "turn.completed": {
        const wasAtWork = before.turn?.startedAt !== null
        if (!wasAtWork) return
        known.owes = true
        known.alone = true
        // Ended without its agent, which may be at it for a moment still.
        const isOver = event.data.initiator !== "policy" && event.data.reason !== "agent_lost"
        known.files = isOver ? known.disk?.filesOf(id) ?? null : null
        return
      }
      case "sandbox.checkpoint":
        return this.#checkpoint(before, event, known, fence)
      case "sandbox.restored":
        return this.#restored(before, event, known, worker)
      case "sandbox.status":
        if (event.data.reason === "host_lost") {
          this.#rule("no sandbox is lost while there is a checkpoint of it", this.#readable(before).length === 0, id)
        }
        return
      default:
        return
    }
  }

  #checkpoint(
    { creation: { id }, checkpoint: newest }: Told,
    { data }: SandboxEventOf<"sandbox.checkpoint">,
    known: Known,
    fence: number
  ): void {
    known.owes = false
    const { checkpoint } = data
    if (checkpoint === undefined) {
      this.#rule("a checkpoint has its number, or says why there is none", data.error !== undefined, id)
      this.#trace.count("checkpoints that could not be taken")
      return
    }
    this.#trace.count("checkpoints")
    this.#rule("checkpoints count from 1 without gaps", checkpoint === newest + 1, `${id}: ${checkpoint} after ${newest}`)
    const files = known.puts.get(`${fence} ${checkpoint}`)
    this.#rule("a checkpoint is recorded under the lease that put it", files !== undefined, `${id}: ${checkpoint} by ${fence}`)
    if (files === undefined) return
    known.alone = false
    this.#rule(
      "a checkpoint has what the turns before it left",
      known.files === null || files === known.files,
      `${id} ${checkpoint}: ${files}, not ${known.files}`
    )
    known.checkpoints.set(checkpoint, { files, said: known.said })
    known.files = files
  }

  #restored(before: Told, { data }: SandboxEventOf<"sandbox.restored">, known: Known, worker: string | null): void {
    const { creation: { id, origin }, restoring } = before
    const { cause, checkpoint, damaged = [] } = data
    this.#trace.count(checkpoint === undefined ? "restores that failed" : `restored (${cause})`)
    if (damaged.length > 0) this.#trace.count("damaged checkpoints passed over")
    const of = cause === "fork" && origin !== null ? origin.sandboxId : id
    this.#rule(
      "a checkpoint that is whole is not passed over",
      damaged.every((number) => this.damaged.has(`${of}/${number}`)),
      `${of}: ${damaged.join()}`
    )
    const wanted = (cause === "fork" ? origin?.checkpoint : cause === "command" ? restoring : before.checkpoint) ?? 0
    const passed = Array.from({ length: Math.max(0, wanted - (checkpoint ?? 0)) }, (_, i) => wanted - i)
    this.#rule(
      "what is restored is what was wanted, or the newest before it that can be read",
      // The checkpoints in between of another sandbox may be gone by now.
      (checkpoint ?? 0) <= wanted && passed.every((number) => damaged.includes(number) || cause === "fork" && number < wanted),
      `${of}: ${checkpoint} for ${wanted} without ${damaged.join()}`
    )
    const wasWhole = !this.spoilt.has(`${of}/${checkpoint} to ${worker}`)
    this.#rule("what was given out damaged, or is another's, is not restored", wasWhole, `${of} ${checkpoint}`)
    if (checkpoint === undefined) {
      this.#rule("nothing restored is said, with a reason, of what a person wanted", cause === "command" && data.error !== undefined, id)
      return
    }
    const isTheMachine = cause === "machine_drained" || cause === "machine_lost"
    const isWhole = known.stays && known.disk !== null && known.disk === known.holder
    this.#rule("a machine that has everything does not go back", !isTheMachine || !isWhole, `${id}: ${cause}`)
    this.#rule(
      "what a turn that ended changed is never lost with a machine that was merely drained",
      cause !== "machine_drained" || !known.alone,
      `${id}: checkpoint ${checkpoint}`
    )
    if (isTheMachine && known.alone && data.lost_turn === undefined) this.#trace.count("changes of ended turns lost with their machine")
    if (data.lost_turn !== undefined) this.#trace.count("turns lost with their machine")
    known.owes = false
    known.disk = known.holder
    known.alone = false
    const restored = this.#known.get(of)?.checkpoints.get(checkpoint)
    known.files = restored?.files ?? null
    known.said = restored?.said ?? null
  }

  /** Those from which any machine can go on with it. */
  #readable({ checkpoint, creation: { id, origin } }: Told): ReadonlyArray<number> {
    if (checkpoint === 0 && origin !== null) return this.damaged.has(`${origin.sandboxId}/${origin.checkpoint}`) ? [] : [0]
    return Array.from({ length: checkpoint }, (_, i) => i + 1).filter((number) => !this.damaged.has(`${id}/${number}`))
  }

  #first({ continues, origin, repos }: Creation): Known {
    const folders = repos.map(({ fullName }) => `${folderOf(fullName)}/`)
    const start = Object.entries(this.#start).filter(([path]) => folders.some((folder) => path.startsWith(folder)))
    const from = origin === null
      ? { files: filesOf(start), said: [] }
      : this.#known.get(origin.sandboxId)?.checkpoints.get(origin.checkpoint)
    return {
      // A person may have moved a continued branch before it was cloned.
      files: continues === null ? from?.files ?? null : null,
      said: from?.said ?? null,
      disk: null,
      holder: null,
      stays: false,
      owes: false,
      alone: false,
      checkpoints: new Map(),
      puts: new Map(),
      reads: new Map(),
      replaced: new Set()
    }
  }

  #rule(rule: string, holds: boolean, detail: string): void {
    if (!holds) this.#trace.breaks(rule, detail)
  }
}

/** No two repositories of a simulation have one name. */
const folderOf = (repo: string) => repo.split("/")[1] ?? repo

const filesOf = (entries: Iterable<readonly [path: string, content: string]>): Files =>
  JSON.stringify([...entries].toSorted(([a], [b]) => a < b ? -1 : 1))

/** A disk that holds these files, each sandbox's below a folder of its own. */
export const diskOf = (files: ReadonlyMap<string, string>): Disk => ({
  remembered: (home, session) => remembered(files, home, session),
  hasSession: (home, session) => hasSession(files, home, session),
  filesOf: (id) => {
    const folder = `/memory/work/${id}/`
    return filesOf(Array.from(files).flatMap(([path, content]) => path.startsWith(folder) ? [[path.slice(folder.length), content]] : []))
  }
})
