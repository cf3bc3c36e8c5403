/** A repository on the test server: its git side, and its issues, pull requests, reviews, statuses and runs. */
import type { BareRepository, Changes, Counts } from "@slipway/git/testing/BareRepository"

export interface User {
  /** Negative: an account of the server itself. */
  readonly id: number
  readonly login: string
}

/** The pull request of an issue. */
export interface Pull {
  readonly id: number
  baseRef: string
  readonly headRef: string
  headSha: string
  mergeBase: string
  merged: boolean
  counts: Counts
  /** The repository that its branch is in, if it is another one; `null`: that one was deleted. */
  readonly fork?: string | null
  /** It was pushed without a branch. */
  readonly isAGit?: boolean
  /** Logins, and the names of teams as `team:name`. */
  readonly reviewers: Set<string>
}

export interface Issue {
  readonly id: number
  readonly number: number
  readonly user: User
  readonly createdAt: string
  title: string
  body: string
  state: "open" | "closed"
  updatedAt: string
  readonly labels: Set<Label>
  readonly pull: Pull | null
}

export interface Label {
  readonly id: number
  readonly name: string
}

/** An entry of an issue's timeline. `code`: a comment of a review on a line. */
export interface Entry {
  readonly id: number
  readonly number: number
  readonly type: "comment" | "label" | "review" | "code" | "change_title"
  readonly user: User
  body: string
  readonly label: Label | null
  readonly review: Review | null
  readonly path: string
  /** Negative: the line was removed. */
  readonly line: number
  readonly createdAt: string
  updatedAt: string
}

export interface Review {
  readonly id: number
  readonly number: number
  readonly user: User
  body: string
  state: "APPROVED" | "REQUEST_CHANGES" | "COMMENT" | "PENDING" | "REQUEST_REVIEW"
  readonly submittedAt: string
}

export interface Status {
  readonly id: number
  readonly sha: string
  readonly context: string
  readonly status: string
  readonly description: string
  readonly targetUrl: string
  readonly at: string
}

/** A run of Actions with one job. */
export interface Run {
  readonly id: number
  readonly name: string
  readonly sha: string
  readonly branch: string
  readonly event: string
  /** As Forgejo says it: `success`, `failure`, `running`. */
  readonly status: string
  readonly at: string
  readonly jobId: number
  readonly log: string
}

interface Surroundings {
  readonly nextId: () => number
  readonly now: () => number
}

const MANY_SECONDS = 1000

export class Repository {
  readonly id: number
  readonly bare: BareRepository
  readonly defaultBranch: string
  owner: User
  name: string
  private = true
  /** Accounts with their access; others have none. */
  readonly collaborators: Array<User & { readonly permission: "owner" | "admin" | "write" | "read" }> = []
  readonly formerNames: Array<string> = []
  readonly labels: Array<Label> = []
  readonly protectedBranches = new Set<string>()
  readonly issues: Array<Issue> = []
  readonly entries: Array<Entry> = []
  readonly reviews: Array<Review> = []
  readonly statuses: Array<Status> = []
  readonly runs: Array<Run> = []
  readonly #surroundings: Surroundings
  #last = 0
  #queue: Promise<unknown> = Promise.resolve()

  constructor(owner: User, name: string, defaultBranch: string, bare: BareRepository, surroundings: Surroundings) {
    this.id = surroundings.nextId()
    this.owner = owner
    this.name = name
    this.defaultBranch = defaultBranch
    this.bare = bare
    this.#surroundings = surroundings
  }

  get fullName(): string {
    return `${this.owner.login}/${this.name}`
  }

  nextId(): number {
    return this.#surroundings.nextId()
  }

  /** Whole seconds, but no two changes in the same one: tests can tell them apart without waiting. */
  instant(): string {
    this.#last = Math.max(Math.floor(this.#surroundings.now() / MANY_SECONDS), this.#last + 1)
    return new Date(this.#last * MANY_SECONDS).toISOString().replace(".000Z", "Z")
  }

  /** One change or read at a time. */
  exclusively<A>(work: () => Promise<A>): Promise<A> {
    const result = this.#queue.then(work)
    this.#queue = result.catch(() => {})
    return result
  }

  get pulls(): ReadonlyArray<Issue & { readonly pull: Pull }> {
    return this.issues.filter((issue): issue is Issue & { readonly pull: Pull } => issue.pull !== null)
  }

  /** Follows pushes: heads move, and pull requests are closed when their branch is gone. */
  async settle(): Promise<void> {
    const branches = await this.bare.branches()
    for (const issue of this.pulls) {
      const { pull } = issue
      if (issue.state === "closed" || pull.fork !== undefined || pull.isAGit === true) continue
      const [head, base] = [branches.get(pull.headRef), branches.get(pull.baseRef)]
      if (head === undefined || base === undefined) {
        issue.state = "closed"
        issue.updatedAt = this.instant()
      } else if (head !== pull.headSha) {
        pull.headSha = head
        pull.mergeBase = await this.bare.git(["merge-base", base, head])
        pull.counts = await this.bare.counts(base, head)
        issue.updatedAt = this.instant()
      }
    }
  }

  open(fields: Pick<Issue, "body" | "title" | "user"> & { readonly pull?: Omit<Pull, "id" | "merged" | "reviewers"> }): Issue {
    const at = this.instant()
    const issue: Issue = {
      id: this.nextId(),
      number: this.issues.length + 1,
      user: fields.user,
      title: fields.title,
      body: fields.body,
      state: "open",
      createdAt: at,
      updatedAt: at,
      labels: new Set(),
      pull: fields.pull === undefined ? null : { ...fields.pull, id: this.nextId(), merged: false, reviewers: new Set() }
    }
    this.issues.push(issue)
    return issue
  }

  private change<A>(work: () => Promise<A>): Promise<A> {
    return this.exclusively(async () => {
      const result = await work()
      await this.settle()
      return result
    })
  }

  /** Commits on top of `branch`, or starts it from the default branch. Gives the commit. */
  commit(branch: string, changes: Changes): Promise<string> {
    return this.change(() => this.bare.commit(branch, changes, this.defaultBranch))
  }

  /** Merges by a merge commit, as the button does. */
  merge(head: string, base: string): Promise<void> {
    return this.change(async () => {
      await this.bare.merge(head, base)
      for (const issue of this.pulls) {
        if (issue.state === "closed" || issue.pull.headRef !== head || issue.pull.baseRef !== base) continue
        issue.state = "closed"
        issue.pull.merged = true
        issue.updatedAt = this.instant()
      }
    })
  }

  deleteBranch(branch: string): Promise<void> {
    return this.change(async () => void await this.bare.deleteRef(`refs/heads/${branch}`))
  }

  issue(number: number): Issue | undefined {
    return this.issues.find((one) => one.number === number)
  }

  /** Adds to the timeline of an issue. */
  entry(number: number, fields: Partial<Omit<Entry, "createdAt" | "id" | "number" | "updatedAt">>): Entry {
    const at = this.instant()
    const entry: Entry = {
      id: this.nextId(),
      number,
      type: "comment",
      user: { id: 1, login: "someone" },
      body: "",
      label: null,
      review: null,
      path: "",
      line: 0,
      createdAt: at,
      updatedAt: at,
      ...fields
    }
    this.entries.push(entry)
    const issue = this.issue(number)
    if (issue !== undefined) issue.updatedAt = at
    return entry
  }

  /** A review, and its comments on lines. */
  review(
    number: number,
    user: User,
    body: string,
    code: ReadonlyArray<{ readonly path: string; readonly line: number; readonly text: string }> = [],
    state: Review["state"] = "COMMENT"
  ): Review {
    const review: Review = { id: this.nextId(), number, user, body, state, submittedAt: this.instant() }
    this.reviews.push(review)
    if (state !== "PENDING") this.entry(number, { type: "review", user, body, review })
    for (const { line, path, text } of code) this.entry(number, { type: "code", user, body: text, review, path, line })
    return review
  }

  label(number: number, name: string, user: User): void {
    const label = this.labels.find((one) => one.name === name) ?? { id: this.nextId(), name }
    if (!this.labels.includes(label)) this.labels.push(label)
    this.issue(number)?.labels.add(label)
    this.entry(number, { type: "label", user, label, body: "1" })
  }

  status(sha: string, fields: Partial<Omit<Status, "at" | "id" | "sha">>): Status {
    const status = {
      id: this.nextId(),
      sha,
      context: "ci",
      status: "success",
      description: "",
      targetUrl: "",
      at: this.instant(),
      ...fields
    }
    this.statuses.push(status)
    return status
  }

  /** A run, and the status that it sets for its job. */
  run(sha: string, fields: Partial<Omit<Run, "at" | "id" | "jobId" | "sha">>): Run {
    const run: Run = {
      id: this.nextId(),
      jobId: this.nextId(),
      name: "test",
      sha,
      branch: this.defaultBranch,
      event: "push",
      status: "running",
      log: "",
      at: this.instant(),
      ...fields
    }
    this.runs.push(run)
    const status = run.status === "cancelled" ? "failure" : run.status === "running" ? "pending" : run.status
    this.status(sha, { context: run.name, status, targetUrl: `/${this.fullName}/actions/runs/${run.id}/jobs/${run.jobId}` })
    return run
  }

  /** The old name answers with a redirection from now on. */
  rename(name: string): void {
    this.formerNames.push(this.name)
    this.name = name
  }
}
