/** A repository on the test server: its git side, and the pull requests, comments and checks on it. */
import type { BareRepository, Changes, Counts } from "@slipway/git/testing/BareRepository"

export interface User {
  readonly id: number
  readonly login: string
}

export interface Pull {
  readonly id: number
  readonly number: number
  readonly user: User
  readonly createdAt: string
  title: string
  body: string | null
  state: "open" | "closed"
  draft: boolean
  readonly labels: Set<string>
  /** Logins, and the names of teams as `team:name`. */
  readonly reviewers: Set<string>
  closedAt: string | null
  mergedAt: string | null
  baseRef: string
  baseSha: string
  readonly headRef: string
  headSha: string
  updatedAt: string
  counts: Counts
  /** The repository that its branch is in, if it is another one; `null`: that one was deleted. */
  readonly fork?: string | null
  /** `null`: not computed yet. */
  mergeable: boolean | null
  /** How often it is still answered before it is computed. */
  readsBeforeMergeable: number
}

export interface Comment {
  readonly id: number
  readonly number: number
  /** `null`: the account was deleted. */
  readonly user: User | null
  body: string
  /** A text of a review on all of a pull request. */
  readonly isReview: boolean
  /** The file of a comment on code. */
  readonly path: string | null
  /** `null`: the comment is outdated, or on all of a file. */
  readonly line: number | null
  /** The line where it was written; `null` for a comment on all of a file. */
  readonly originalLine: number | null
  readonly createdAt: string
  updatedAt: string
}

export interface CheckRun {
  readonly id: number
  name: string
  readonly headSha: string
  status: "queued" | "in_progress" | "completed" | "waiting" | "requested" | "pending"
  conclusion: "success" | "failure" | "neutral" | "cancelled" | "skipped" | "timed_out" | "action_required" | null
  startedAt: string | null
  completedAt: string | null
  readonly annotations: ReadonlyArray<{ readonly path: string; readonly line: number; readonly message: string }>
  /** The log of its job; `null`: the check is of another program. */
  readonly log: string | null
}

export interface WorkflowRun {
  readonly id: number
  readonly name: string | null
  readonly headSha: string
  readonly headBranch: string | null
  readonly event: string
  readonly status: string
  readonly conclusion: string | null
  readonly runNumber: number
  readonly createdAt: string
}

/** An entry of the repository's list of events. */
export interface Event {
  readonly id: string
  readonly type: string
  readonly actor: User
  readonly createdAt: string
  readonly payload: object
}

/** State that all repositories of a server share. */
interface Surroundings {
  readonly nextId: () => number
  readonly now: () => number
  readonly readsBeforeMergeable: number
}

const MANY_SECONDS = 1000

export class Repository {
  readonly id: number
  readonly owner: User
  readonly defaultBranch: string
  readonly bare: BareRepository
  name: string
  private: boolean
  /** Whether the plan of its owner has drafts. */
  drafts = true
  /** Accounts with their access; others have none, or may read if the repository is public. */
  readonly collaborators: Array<User & { readonly permission: "admin" | "write" | "read" }> = []
  readonly formerNames: Array<string> = []
  readonly labels = new Set<string>()
  /** Names of teams that can review. */
  readonly teams = new Set<string>()
  readonly protectedBranches = new Set<string>()
  readonly pulls: Array<Pull> = []
  readonly comments: Array<Comment> = []
  readonly checkRuns: Array<CheckRun> = []
  readonly workflowRuns: Array<WorkflowRun> = []
  /** Oldest first. Only tests write them: GitHub lists events some time after they happened. */
  readonly events: Array<Event> = []
  pollIntervalSeconds = 60
  readonly #surroundings: Surroundings
  #last = 0
  #queue: Promise<unknown> = Promise.resolve()

  constructor(owner: User, name: string, defaultBranch: string, bare: BareRepository, surroundings: Surroundings) {
    this.id = surroundings.nextId()
    this.owner = owner
    this.name = name
    this.private = true
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

  /** Whole seconds as on GitHub, but no two changes in the same one: tests can tell them apart without waiting. */
  instant(): string {
    this.#last = Math.max(Math.floor(this.#surroundings.now() / MANY_SECONDS), this.#last + 1)
    return new Date(this.#last * MANY_SECONDS).toISOString().replace(".000Z", "Z")
  }

  /** One change or look at a time. */
  exclusively<A>(work: () => Promise<A>): Promise<A> {
    const result = this.#queue.then(work)
    this.#queue = result.catch(() => {})
    return result
  }

  /** Follows what was pushed: heads move, pull requests are merged, or closed when their branch is gone. */
  async settle(): Promise<void> {
    const branches = await this.bare.branches()
    for (const pull of this.pulls) {
      if (pull.state === "closed" || pull.fork !== undefined) continue
      const [head, base] = [branches.get(pull.headRef), branches.get(pull.baseRef)]
      if (head === undefined || base === undefined) {
        pull.state = "closed"
        pull.closedAt = pull.updatedAt = this.instant()
        continue
      }
      if (head !== pull.headSha) {
        pull.headSha = head
        pull.baseSha = base
        pull.counts = await this.bare.counts(base, head)
        pull.mergeable = null
        pull.readsBeforeMergeable = this.#surroundings.readsBeforeMergeable
        pull.updatedAt = this.instant()
      }
      if (await this.bare.contains(base, head)) {
        pull.state = "closed"
        pull.mergedAt = pull.closedAt = pull.updatedAt = this.instant()
      }
    }
  }

  /** Adds an open pull request. That there may be one was checked before. */
  async open(
    fields: Pick<Pull, "title" | "body" | "draft" | "user" | "baseRef" | "baseSha" | "fork" | "headRef" | "headSha">
  ): Promise<Pull> {
    const at = this.instant()
    const pull: Pull = {
      ...fields,
      id: this.nextId(),
      number: this.pulls.length + 1,
      state: "open",
      labels: new Set(),
      reviewers: new Set(),
      createdAt: at,
      updatedAt: at,
      closedAt: null,
      mergedAt: null,
      counts: await this.bare.counts(fields.baseSha, fields.headSha),
      mergeable: null,
      readsBeforeMergeable: this.#surroundings.readsBeforeMergeable
    }
    this.pulls.push(pull)
    return pull
  }

  /** A reader asks: what is not computed yet is being computed from now on. */
  async look(pull: Pull): Promise<void> {
    if (pull.state === "closed" || pull.mergeable !== null) return
    if (pull.readsBeforeMergeable-- > 0) return
    pull.mergeable = await this.bare.canMerge(`refs/heads/${pull.baseRef}`, pull.headSha)
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

  /** Merges by a merge commit. */
  merge(head: string, base: string): Promise<void> {
    return this.change(() => this.bare.merge(head, base))
  }

  deleteBranch(branch: string): Promise<void> {
    return this.change(async () => void await this.bare.deleteRef(`refs/heads/${branch}`))
  }

  /** Somebody's word on a pull request, or on a file of it. */
  comment(
    number: number,
    fields: {
      readonly user?: User | null
      readonly body?: string
      readonly isReview?: boolean
      readonly path?: string
      readonly line?: number | null
      readonly originalLine?: number
    }
  ): Comment {
    const { body = "", isReview = false, line = null, originalLine = line, path = null, user = { id: 1, login: "octocat" } } = fields
    const createdAt = this.instant()
    const comment = { id: this.nextId(), number, user, body, isReview, path, line, originalLine, createdAt, updatedAt: createdAt }
    this.comments.push(comment)
    return comment
  }

  checkRun(headSha: string, fields: Partial<Omit<CheckRun, "id" | "headSha">> = {}): CheckRun {
    const { annotations = [], completedAt = null, conclusion = null, log = null, name = "check", startedAt = null, status = "queued" } =
      fields
    const run = { id: this.nextId(), headSha, name, status, conclusion, startedAt, completedAt, annotations, log }
    this.checkRuns.push(run)
    return run
  }

  workflowRun(headSha: string, fields: Partial<Omit<WorkflowRun, "id" | "headSha" | "runNumber">> = {}): WorkflowRun {
    const { conclusion = null, createdAt = this.instant(), event = "push", headBranch = null, name = "workflow", status = "queued" } =
      fields
    const run = {
      id: this.nextId(),
      headSha,
      name,
      headBranch,
      event,
      status,
      conclusion,
      runNumber: this.workflowRuns.length + 1,
      createdAt
    }
    this.workflowRuns.push(run)
    return run
  }

  /** Adds to the list of events. */
  event(type: string, payload: object, actor: User = { id: 1, login: "octocat" }): Event {
    const event = { id: String(this.nextId()), type, actor, createdAt: this.instant(), payload }
    this.events.push(event)
    return event
  }

  /** The old name answers with a redirection from now on. */
  rename(name: string): void {
    this.formerNames.push(this.name)
    this.name = name
  }
}
