/**
 * A user of the machine for each sandbox: what one leaves on a disk or in the process table is not the other's, and the
 * kernel counts processes per user. Claims are files, one per number, in a folder that all services of the machine share,
 * so they outlive restarts and no number is given twice:
 *
 *     <registry>/<uid>    "<folder of the claimant>\n<sandbox id>\n"
 */
import { codeOf, ifAbsent, ifCode } from "@slipway/domain/files/rules/SystemError"
import { randomInt, randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { link, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"

export const REGISTRY = "/var/lib/slipway/uids"

interface Range {
  readonly first: number
  readonly count: number
}

/** Above the ids that systemd gives to containers and below 2^31: unused by convention (systemd.io/UIDS-GIDS, 2026-11). */
const FREE: Range = { first: 1_900_000_000, count: 100_000 }
/** For a root whose own user namespace maps few users, as in a container. */
const SMALL: Range = { first: 20_000, count: 40_000 }

/** Numbers that may be given, `null` where this process cannot become another user. */
export const range = (uidMap = readFileSync("/proc/self/uid_map", "utf8")): Range | null => {
  const mapped = uidMap.trim().split("\n").map((line) => line.trim().split(/\s+/u).map(Number))
  return [FREE, SMALL].find(({ count, first }) =>
    mapped.some(([start = 0, , length = 0]) => first >= start && first + count <= start + length)
  ) ?? null
}

const claimText = (directory: string, name: string) => `${directory}\n${name}\n`

interface Claim {
  readonly uid: number
  readonly directory: string
  readonly name: string
}

/** The claimant is empty if the file is missing, or was cut by a power failure. */
const read = async (registry: string, file: string): Promise<Claim> => {
  const text = await readFile(join(registry, file), "utf8").catch(ifAbsent(""))
  const [directory = "", name = ""] = text.split("\n")
  return { uid: Number(file), directory, name }
}

const files = async (registry: string): Promise<ReadonlyArray<string>> => {
  const found = await readdir(registry).catch(ifAbsent([]))
  return found.filter((file) => /^\d+$/u.test(file))
}

/** Files that are open at once. */
const READ_AT_ONCE = 64

/** Claims of one service, which its folder stands for. */
export const make = (options: { readonly registry: string; readonly directory: string; readonly range: Range }) => {
  const { directory, range, registry } = options
  /** Claims that were read before. A claim does not change while its file exists, and other services do not give up ours. */
  const known = new Map<string, Claim>()

  /** Reads new files only: a thousand sandboxes at rest must not cost a thousand reads each time. */
  const all = async (): Promise<ReadonlyArray<Claim>> => {
    const there = await files(registry)
    const isThere = new Set(there)
    for (const file of known.keys()) if (!isThere.has(file)) known.delete(file)
    const unread = there.filter((file) => !known.has(file))
    for (let first = 0; first < unread.length; first += READ_AT_ONCE) {
      for (const claim of await Promise.all(unread.slice(first, first + READ_AT_ONCE).map((file) => read(registry, file)))) {
        // Else given back in this moment.
        if (claim.directory !== "") known.set(`${claim.uid}`, claim)
      }
    }
    return [...known.values()]
  }

  /** The sandbox's number: the one it has, or a new one. */
  const claim = async (name: string): Promise<number> => {
    const isIts = (claim: Claim) => claim.directory === directory && claim.name === name
    const remembered = [...known.values()].find(isIts)
    // Never by memory alone: two sandboxes of one user would be one.
    if (remembered !== undefined) {
      if (isIts(await read(registry, `${remembered.uid}`))) return remembered.uid
      known.delete(`${remembered.uid}`)
    }
    const its = (await all()).find(isIts)
    if (its !== undefined) return its.uid
    await mkdir(registry, { recursive: true, mode: 0o700 })
    // Linked into place whole: a claim is never seen without its claimant.
    const draft = join(registry, `.${randomUUID()}`)
    await writeFile(draft, claimText(directory, name), { mode: 0o600 })
    try {
      // From anywhere in the range: what was given back is not soon given again.
      const start = randomInt(range.count)
      for (let i = 0; i < range.count; i++) {
        const uid = range.first + (start + i) % range.count
        const taken = await link(draft, join(registry, `${uid}`)).then(() => false, ifCode(["EEXIST"], true))
        if (!taken) {
          known.set(`${uid}`, { uid, directory, name })
          return uid
        }
      }
      throw new Error("every user number is taken")
    } finally {
      await rm(draft, { force: true })
    }
  }

  const giveUp = async ({ uid }: Claim): Promise<void> => {
    await rm(join(registry, `${uid}`), { force: true })
    known.delete(`${uid}`)
  }

  const list = async (): Promise<ReadonlyArray<Claim>> => (await all()).filter((claim) => claim.directory === directory)

  /** Gives the numbers of `name` back. Safe to repeat. */
  const release = async (name: string): Promise<void> => {
    for (const claim of await list()) if (claim.name === name) await giveUp(claim)
  }

  /** Gives back what services claimed whose folder is gone, and with it all that they could find again. */
  const prune = async (): Promise<void> => {
    for (const file of await files(registry)) {
      // Claims of other services may have changed since they were read.
      const claim = await read(registry, file)
      const isGone = claim.directory === "" || await stat(claim.directory).then(() => false, (error: unknown) => codeOf(error) === "ENOENT")
      if (isGone) await giveUp(claim)
    }
  }

  return { claim, list, prune, release }
}
