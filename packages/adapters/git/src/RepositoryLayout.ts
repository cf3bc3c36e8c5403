/** Repositories laid out by hand: `git init` would take a process for each. */
import { randomUUID } from "node:crypto"
import { mkdir, rename, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"

export interface Layout {
  /** What `HEAD` holds. */
  readonly head: string
  /** What `packed-refs` holds. Default: nothing. */
  readonly refs?: string
  /** The folder with the objects to borrow; `null`: it has all of its own. */
  readonly objects: string | null
  /** The commits whose parents are not there. */
  readonly shallow: ReadonlyArray<string>
  /** More configuration. */
  readonly config?: string
}

/**
 * Attributes have no say: files are what their bytes are, and are compared as text. What is here goes before whatever a
 * repository or a tree says. Filters, encodings and line ends would have git run programs, fail, or commit something else
 * than what can be seen in the tree.
 */
const ATTRIBUTES = "* -text !eol !crlf !ident !filter !working-tree-encoding !diff\n"

export const setAttributes = async (gitDir: string): Promise<void> => {
  await mkdir(join(gitDir, "info"), { recursive: true })
  await writeFile(join(gitDir, "info", "attributes"), ATTRIBUTES)
}

/** What is in its files, by path. Folders that a repository has beside those: `refs` and `objects/pack`. */
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
