/** A bare repository on disk, and what a source host asks git about it. */
import { execFile } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { join } from "node:path"

/** Content by path; `null` deletes. */
export type Changes = Readonly<Record<string, string | null>>

export interface Counts {
  readonly additions: number
  readonly deletions: number
  readonly changedFiles: number
  readonly commits: number
}

export interface Signature {
  readonly name: string
  readonly email: string
  /** ISO 8601; absent: now. */
  readonly date?: string
}

const someone: Signature = { name: "Someone", email: "someone@example.com" }

const ENVIRONMENT = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  LC_ALL: "C",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1"
}

interface GitOptions {
  readonly input?: string | Buffer
  readonly env?: Readonly<Record<string, string>>
}

/** Asynchronous, because the server that asks lives in the process of the test. */
const git = (args: ReadonlyArray<string>, { env = {}, input = "" }: GitOptions = {}): Promise<string> =>
  new Promise((resolve, reject) => {
    const child = execFile("git", [...args], { env: { ...ENVIRONMENT, ...env }, maxBuffer: 1 << 26 }, (error, stdout) =>
      error === null ? resolve(stdout.trimEnd()) : reject(error))
    child.stdin?.on("error", () => {})
    child.stdin?.end(input)
  })

export class BareRepository {
  readonly path: string

  private constructor(path: string) {
    this.path = path
  }

  static async create(path: string, defaultBranch: string): Promise<BareRepository> {
    await git(["init", "--quiet", "--bare", `--initial-branch=${defaultBranch}`, path])
    const repository = new BareRepository(path)
    // As GitHub does: any commit can be fetched by its id.
    await repository.git(["config", "uploadpack.allowAnySHA1InWant", "true"])
    return repository
  }

  git(args: ReadonlyArray<string>, options?: GitOptions): Promise<string> {
    return git(["--git-dir", this.path, ...args], options)
  }

  /** Whether a command whose exit code is its answer says yes. */
  private asks(args: ReadonlyArray<string>): Promise<boolean> {
    return this.git(args).then(() => true, () => false)
  }

  /** Commits by branch. */
  async branches(): Promise<Map<string, string>> {
    const refs = await this.git(["for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads"])
    return new Map(refs.split("\n").filter((line) => line !== "").map((line) => [line.slice(41), line.slice(0, 40)]))
  }

  /** The commit a branch, a tag or an id stands for. */
  resolve(ref: string): Promise<string | undefined> {
    return this.git(["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`]).catch(() => undefined)
  }

  /** Whether `ancestor` is in the history of `sha`. */
  contains(sha: string, ancestor: string): Promise<boolean> {
    return this.asks(["merge-base", "--is-ancestor", ancestor, sha])
  }

  /** The changes of `head` since it left `base`: the three-dot difference, as on a pull request's page. */
  async counts(base: string, head: string): Promise<Counts> {
    const files = (await this.git(["diff", "--numstat", "--no-renames", `${base}...${head}`])).split("\n").filter((line) => line !== "")
    const lines = files.map((file) => file.split("\t").map((count) => Number(count) || 0))
    return {
      additions: lines.reduce((sum, [added = 0]) => sum + added, 0),
      deletions: lines.reduce((sum, [, deleted = 0]) => sum + deleted, 0),
      changedFiles: files.length,
      commits: Number(await this.git(["rev-list", "--count", `${base}..${head}`]))
    }
  }

  canMerge(base: string, head: string): Promise<boolean> {
    return this.asks(["merge-tree", "--write-tree", base, head])
  }

  setRef(ref: string, sha: string): Promise<unknown> {
    return this.git(["update-ref", ref, sha])
  }

  deleteRef(ref: string): Promise<unknown> {
    return this.git(["update-ref", "-d", ref])
  }

  blob(content: string | Buffer): Promise<string> {
    return this.git(["hash-object", "-w", "--stdin"], { input: content })
  }

  /** A tree of `entries` on top of another one. */
  async tree(
    entries: ReadonlyArray<{ readonly mode: string; readonly path: string; readonly sha: string | null }>,
    base?: string
  ): Promise<string> {
    const folder = await mkdtemp(join(this.path, "index-"))
    const env = { GIT_INDEX_FILE: join(folder, "index") }
    try {
      if (base !== undefined) await this.git(["read-tree", base], { env })
      const lines = entries.map(({ mode, path, sha }) => `${sha === null ? "0" : mode} ${sha ?? "0".repeat(40)}\t${path}\0`)
      await this.git(["update-index", "-z", "--index-info"], { env, input: lines.join("") })
      return await this.git(["write-tree"], { env })
    } finally {
      await rm(folder, { recursive: true })
    }
  }

  commitTree(tree: string, parents: ReadonlyArray<string>, message: string, author = someone, committer = author): Promise<string> {
    const signed = ({ date, email, name }: Signature) =>
      `${name} <${email}> ${Math.floor((date === undefined ? Date.now() : Date.parse(date)) / 1000)} +0000`
    // As an object of its own making: git's command would touch the message.
    const lines = [`tree ${tree}`, ...parents.map((parent) => `parent ${parent}`), `author ${signed(author)}`,
      `committer ${signed(committer)}`, "", message]
    return this.git(["hash-object", "-t", "commit", "-w", "--stdin"], { input: lines.join("\n") })
  }

  /** Commits on top of `branch`, or starts it from `from`. Gives the commit. */
  async commit(branch: string, changes: Changes, from?: string): Promise<string> {
    const branches = await this.branches()
    const parent = branches.get(branch) ?? (from === undefined ? undefined : branches.get(from))
    const entries = await Promise.all(
      Object.entries(changes).map(async ([path, content]) => ({
        mode: "100644",
        path,
        sha: content === null ? null : await this.blob(content)
      }))
    )
    const sha = await this.commitTree(await this.tree(entries, parent), parent === undefined ? [] : [parent], "change\n")
    await this.setRef(`refs/heads/${branch}`, sha)
    return sha
  }

  /** Merges branches by a merge commit. */
  async merge(head: string, base: string): Promise<void> {
    const tree = await this.git(["merge-tree", "--write-tree", base, head])
    const sha = await this.commitTree(tree, [await this.git(["rev-parse", base]), await this.git(["rev-parse", head])], "merge\n")
    await this.setRef(`refs/heads/${base}`, sha)
  }
}
