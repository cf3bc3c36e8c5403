/** Sessions on disk: the prompts so far, one JSON string per line, in a file named by the session. */
import { randomUUID } from "node:crypto"
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

export interface Session {
  readonly id: string
  /** Prompts of all processes that ran this session, oldest first. */
  readonly prompts: ReadonlyArray<string>
  add(prompt: string): void
}

const open = (folder: string, id: string, earlier: ReadonlyArray<string>): Session => {
  const prompts = [...earlier]
  return {
    id,
    prompts,
    add: (prompt) => {
      appendFileSync(join(folder, id), `${JSON.stringify(prompt)}\n`)
      prompts.push(prompt)
    }
  }
}

export const create = (folder: string): Session => {
  const id = randomUUID()
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, id), "", { flag: "wx" })
  return open(folder, id, [])
}

/** Continues the session of another process; `undefined`: no such session. */
export const resume = (folder: string, id: string): Session | undefined => {
  if (!/^[0-9a-f-]{36}$/u.test(id)) return undefined
  try {
    const lines = readFileSync(join(folder, id), "utf8").split("\n")
    // A process that died while writing leaves an unfinished last line, which does not count.
    return open(
      folder,
      id,
      lines.slice(0, -1).map((line) => String(JSON.parse(line)))
    )
  } catch {
    return undefined
  }
}
