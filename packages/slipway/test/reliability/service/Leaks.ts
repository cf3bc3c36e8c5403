/** Looks for secrets where none may be: in what was said, in files, in what runs. */
import { assert } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import path from "node:path"

/** The part of a secret that is in any base64 text that holds it, at any offset. */
const inBase64 = (secret: string): ReadonlyArray<string> =>
  [0, 1, 2].map((offset) => {
    const encoded = Buffer.from(" ".repeat(offset) + secret).toString("base64").replace(/=+$/u, "")
    return encoded.slice(offset === 0 ? 0 : 4, -2)
  })

export const inPercents = (secret: string): string => [...Buffer.from(secret)].map((byte) => `%${byte.toString(16)}`).join("")

export type Secrets = Readonly<Record<string, string>>

/** Which of the secrets are in the text, plain or encoded. */
export const foundIn = (text: string, secrets: Secrets): ReadonlyArray<string> =>
  Object.entries(secrets).flatMap(([name, secret]) => {
    assert.isAtLeast(secret.length, 16, name)
    const needles = [secret, ...inBase64(secret), encodeURIComponent(secret), inPercents(secret), inPercents(secret).toUpperCase()]
    return needles.some((needle) => text.includes(needle)) ? [name] : []
  })

interface Parent {
  readonly pid: number
  readonly parent: number
}

const processes = (): ReadonlyArray<Parent> =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "latin1")
      return [{ pid: Number(name), parent: Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) }]
    } catch {
      return []
    }
  })

/** Command lines of all processes, and environments of what the service started. Git's are apart: there a token of GitHub travels. */
export const visibleOf = (server: number): { readonly commandLines: string; readonly environments: string; readonly ofGit: string } => {
  const all = processes()
  const children = new Set<number>([server])
  for (let before = 0; before !== children.size;) {
    before = children.size
    for (const { parent, pid } of all) if (children.has(parent)) children.add(pid)
  }
  children.delete(server)
  const read = (pid: number, what: "cmdline" | "environ"): string => {
    try {
      return readFileSync(`/proc/${pid}/${what}`, "latin1")
    } catch {
      return ""
    }
  }
  const { git = [], other = [] } = Object.groupBy(children, (pid) => /^(?:git|\S*\/git)[\0-]/u.test(read(pid, "cmdline")) ? "git" : "other")
  const environments = (pids: ReadonlyArray<number>) => pids.map((pid) => read(pid, "environ")).join("\n")
  return {
    commandLines: all.map(({ pid }) => read(pid, "cmdline")).join("\n"),
    environments: environments(other),
    ofGit: environments(git)
  }
}

export const filesBelow = (at: string): string =>
  readdirSync(at, { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() ? [`${entry.name}\n${readFileSync(path.join(entry.parentPath, entry.name), "latin1")}`] : []
  ).join("\n")
