/** Repositories laid out by hand: `git init` would take a process for each. */
import { randomUUID } from "node:crypto"
import { mkdir, rename, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"

export interface Layout {
  /** The content of `HEAD`. */
  readonly head: string
  /** The content of `packed-refs`. Default: empty. */
  readonly refs?: string
  /** The folder with the objects to borrow; `null`: it has all of its own. */
  readonly objects: string | null
  /** The commits whose parents are not there. */
  readonly shallow: ReadonlyArray<string>
  /** More configuration. */
  readonly config?: string
}

/**
 * Turns attributes off: the content of a file is its bytes, compared as text. These attributes precede those of repositories and trees.
 * Filters, encodings and line ends would make git run programs, fail, or commit other bytes than those in the tree.
 */
const ATTRIBUTES = "* -text !eol !crlf !ident !filter !working-tree-encoding !diff\n"

/** `hasFilter`: filters stay on, for the agent's own git. */
export const setAttributes = async (gitDir: string, { hasFilter = false } = {}): Promise<void> => {
  await mkdir(join(gitDir, "info"), { recursive: true })
  await writeFile(join(gitDir, "info", "attributes"), hasFilter ? ATTRIBUTES.replace(" !filter", "") : ATTRIBUTES)
}

/** The content of its files by path. A repository also has the folders `refs` and `objects/pack`. */
export const filesOf = ({ config = "", head, objects, refs = "", shallow }: Layout): ReadonlyMap<string, string> => {
  const files = new Map([
    ["info/attributes", ATTRIBUTES],
    ["HEAD", `${head}\n`],
    ["packed-refs", refs],
    ["config", `[core]\n\trepositoryformatversion = 0\n\tbare = false\n${config}`]
  ])
  if (objects !== null) files.set("objects/info/alternates", `${objects}\n`)
  // To git the mere file makes the repository a shallow one.
  if (shallow.length > 0) files.set("shallow", `${shallow.join("\n")}\n`)
  return files
}

export const layOut = async (gitDir: string, layout: Layout): Promise<void> => {
  await mkdir(join(gitDir, "objects", "info"), { recursive: true })
  await mkdir(join(gitDir, "refs"), { recursive: true })
  await mkdir(join(gitDir, "info"), { recursive: true })
  await Promise.all(Array.from(filesOf(layout), ([name, content]) => writeFile(join(gitDir, name), content)))
}

/** The file has the old content or the new one, whatever happens on the way. What a crash leaves is in the folder `aside`. */
export const replaceFile = async (path: string, content: string, aside = dirname(path)): Promise<void> => {
  const temporary = join(aside, randomUUID())
  await writeFile(temporary, content, { flush: true })
  await rename(temporary, path)
}
