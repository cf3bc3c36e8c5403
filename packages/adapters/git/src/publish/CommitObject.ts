/** Commits that are written as files: a process of git for each would take longer than all else there is to do. */
import { isThere } from "@slipway/machine/node/IsThere"
import { createHash, randomUUID } from "node:crypto"
import { chmod, mkdir, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { deflate } from "node:zlib"

interface Commit {
  readonly tree: string
  /** `null`: it has none. */
  readonly parent: string | null
  readonly author: { readonly name: string; readonly email: string }
  /** Seconds since the epoch, of author and committer. */
  readonly at: number
  readonly message: string
  /** Makes the signature of the commit; absent: it has none. */
  readonly sign?: (commit: Uint8Array) => string
}

/** Characters that git removes from names and addresses, at their ends and anywhere (ident.c: `strbuf_addstr_without_crud`). */
const CRUD = /^[\0- .,:;<>"\\']+|(?<![\0- .,:;<>"\\'])[\0- .,:;<>"\\']+$|[\n<>]/gu

/** The form in which commits name their author. */
export const signature = ({ at, author }: Pick<Commit, "at" | "author">): string => {
  const [name, email] = [author.name, author.email].map((text) => text.replace(CRUD, ""))
  return `${name} <${email}> ${at} +0000`
}

/** Writes what `git commit-tree` would, into the repository in `gitDir`, and answers its id. The same commit is the same file. */
export const write = async (gitDir: string, { at, author, message, parent, sign, tree }: Commit): Promise<string> => {
  const by = signature({ at, author })
  const head = `tree ${tree}\n${parent === null ? "" : `parent ${parent}\n`}author ${by}\ncommitter ${by}\n`
  const header = tree.length === 40 ? "gpgsig" : "gpgsig-sha256"
  // Lines of a header go on with a space. What is signed is the commit without this header.
  const signed = sign === undefined ? "" : `${header} ${sign(Buffer.from(`${head}\n${message}`)).trimEnd().replaceAll("\n", "\n ")}\n`
  const body = Buffer.from(`${head}${signed}\n${message}`)
  const content = Buffer.concat([Buffer.from(`commit ${body.length}\0`), body])
  const id = createHash(tree.length === 40 ? "sha1" : "sha256").update(content).digest("hex")
  const folder = join(gitDir, "objects", id.slice(0, 2))
  const path = join(folder, id.slice(2))
  if (await isThere(path)) return id
  await mkdir(folder, { recursive: true })
  const draft = join(gitDir, "scratch", randomUUID())
  await writeFile(draft, await promisify(deflate)(content), { flush: true })
  // The box, which runs as another user, is told to leave out what is in it, and so has to read it.
  await Promise.all([chmod(draft, 0o444), chmod(folder, 0o755)])
  await rename(draft, path)
  return id
}
