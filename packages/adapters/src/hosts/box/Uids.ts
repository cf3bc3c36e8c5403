/**
 * A user of the machine for each sandbox: what one leaves on a disk or in the process table is not the other's, and the
 * kernel counts processes per user. Claims are files, one per number, in a folder that all services of the machine share,
 * so they outlive restarts and no number is given twice:
 *
 *     <registry>/<uid>    "<folder of the claimant>\n<sandbox id>\n"
 */
import { randomInt, randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { link, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { codeOf } from "../../node/ErrorCode.ts"

export const REGISTRY = "/var/lib/slipway/uids"

interface Range {
  readonly first: number
  readonly count: number
}

/** Above what systemd hands out to containers, below 2^31: nobody's by convention (systemd.io/UIDS-GIDS, 2026-11). */
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

const read = async (registry: string, file: string): Promise<ReadonlyArray<Claim>> => {
  if (!/^\d+$/u.test(file)) return []
  const [directory = "", name = ""] = (await readFile(join(registry, file), "utf8").catch(() => "")).split("\n")
  return [{ uid: Number(file), directory, name }]
}

const all = async (registry: string): Promise<ReadonlyArray<Claim>> => {
  const files = await readdir(registry).catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return []
    throw error
  })
  return (await Promise.all(files.map((file) => read(registry, file)))).flat()
}

/** Claims of one service, which its folder stands for. */
export const make = (options: { readonly registry: string; readonly directory: string; readonly range: Range }) => {
  const { directory, range, registry } = options

  /** The sandbox's number: the one it has, or a new one. */
  const claim = async (name: string): Promise<number> => {
    const known = (await all(registry)).find((claim) => claim.directory === directory && claim.name === name)
    if (known !== undefined) return known.uid
    await mkdir(registry, { recursive: true, mode: 0o700 })
    // Linked into place whole: a claim is never seen without its claimant.
    const draft = join(registry, `.${randomUUID()}`)
    await writeFile(draft, claimText(directory, name), { mode: 0o600 })
    try {
      // From anywhere in the range: what was given back is not soon given again.
      const start = randomInt(range.count)
      for (let i = 0; i < range.count; i++) {
        const uid = range.first + (start + i) % range.count
        const taken = await link(draft, join(registry, `${uid}`)).then(() => false, (error: unknown) => {
          if (codeOf(error) !== "EEXIST") throw error
          return true
        })
        if (!taken) return uid
      }
      throw new Error("every user number is taken")
    } finally {
      await rm(draft, { force: true })
    }
  }

  const list = async (): Promise<ReadonlyArray<Claim>> => (await all(registry)).filter((claim) => claim.directory === directory)

  /** Gives the numbers of `name` back. Safe to repeat. */
  const release = async (name: string): Promise<void> => {
    for (const claim of await list()) if (claim.name === name) await rm(join(registry, `${claim.uid}`), { force: true })
  }

  /** Gives back what services claimed whose folder is gone, and with it all that they could find again. */
  const prune = async (): Promise<void> => {
    for (const claim of await all(registry)) {
      const isGone = claim.directory === "" || await stat(claim.directory).then(() => false, (error: unknown) => codeOf(error) === "ENOENT")
      if (isGone) await rm(join(registry, `${claim.uid}`), { force: true })
    }
  }

  return { claim, list, prune, release }
}
