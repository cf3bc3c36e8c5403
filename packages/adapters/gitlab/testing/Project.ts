/** A project on the test server: its git side, and the merge requests, notes, pipelines and issues on it. */
import type { BareRepository, Changes, Counts } from "@slipway/git/testing/BareRepository"

export interface User {
  readonly id: number
  readonly username: string
}

export interface MergeRequest {
  readonly id: number
  readonly iid: number
  readonly author: User
  readonly createdAt: string
  title: string
  description: string
  state: "opened" | "closed" | "merged"
  readonly labels: Set<string>
  reviewers: Array<User>
  readonly targetBranch: string
  readonly sourceBranch: string
  /** The number of another project; `null`: it was deleted. */
  readonly sourceProject?: number | null
  baseSha: string | null
  sha: string | null
  updatedAt: string
  counts: Counts
  /** Reads until GitLab has prepared it. */
  unpreparedReads: number
}

export interface Note {
  readonly id: number
  readonly number: number
  readonly of: "Issue" | "MergeRequest"
  readonly author: User
  body: string
  readonly system: boolean
  readonly internal: boolean
  readonly path: string | null
  readonly line: number | null
  readonly isOfOldLine: boolean
  readonly createdAt: string
  updatedAt: string
}

export interface Pipeline {
  readonly id: number
  readonly sha: string
  readonly ref: string
  readonly source: string
  readonly createdAt: string
  status: string
  updatedAt: string
}

/** A job, or a status of another program. */
export interface Status {
  readonly id: number
  readonly sha: string
  readonly name: string
  status: string
  readonly allowFailure: boolean
  readonly pipeline: number | null
  readonly finishedAt: string | null
  /** The log of its job; `null`: another program's. */
  readonly log: string | null
}

export interface Issue {
  readonly id: number
  readonly iid: number
  readonly author: User
  readonly title: string
  readonly description: string
  readonly confidential: boolean
  readonly labels: Set<string>
  readonly createdAt: string
  updatedAt: string
}

export interface LabelEvent {
  readonly id: number
  readonly of: "issues" | "merge_requests"
  readonly iid: number
  readonly user: User
  readonly action: "add" | "remove"
  readonly label: string
  readonly createdAt: string
}

export interface Event {
  readonly id: number
  readonly action: string
  readonly note: Note | null
  readonly title: string
  readonly author: User
  readonly createdAt: string
}

interface Surroundings {
  readonly nextId: () => number
  readonly now: () => number
  /** Reads of a new merge request until its changes are known. */
  readonly unpreparedReads: number
}

const DRAFT = /^\s*(?:\[draft\]|\(draft\)|draft:)/iu

export const isDraft = ({ title }: Pick<MergeRequest, "title">): boolean => DRAFT.test(title)

export class Project {
  readonly id: number
  readonly bare: BareRepository
  readonly defaultBranch: string
  path: string
  readonly formerPaths: Array<string> = []
  /** Roles of members by user id. */
  readonly members = new Map<
    number,
    { readonly user: User; readonly level: number; readonly state: string; readonly expiresAt: string | null }
  >()
  readonly labels = new Set<string>()
  readonly protectedBranches = new Set<string>()
  readonly mergeRequests: Array<MergeRequest> = []
  readonly notes: Array<Note> = []
  readonly pipelines: Array<Pipeline> = []
  readonly statuses: Array<Status> = []
  readonly issues: Array<Issue> = []
  readonly labelEvents: Array<LabelEvent> = []
  readonly events: Array<Event> = []
  /** Quick actions that GitLab carried out. */
  readonly quickActions: Array<string> = []
  /** Whether CI/CD may be read. */
  hasPipelines = true
  /** More than one reviewer needs a paid plan. */
  isPaid = true
  readonly #surroundings: Surroundings
  #last = 0
  #queue: Promise<unknown> = Promise.resolve()

  constructor(path: string, defaultBranch: string, bare: BareRepository, surroundings: Surroundings) {
    this.id = surroundings.nextId()
    this.path = path
    this.defaultBranch = defaultBranch
    this.bare = bare
    this.#surroundings = surroundings
  }

  nextId(): number {
    return this.#surroundings.nextId()
  }

  /** In milliseconds as on GitLab, but no two changes in the same one: tests can tell them apart without waiting. */
  instant(): string {
    this.#last = Math.max(this.#surroundings.now(), this.#last + 1)
    return new Date(this.#last).toISOString()
  }

  /** One change or look at a time. */
  exclusively<A>(work: () => Promise<A>): Promise<A> {
    const result = this.#queue.then(work)
    this.#queue = result.catch(() => {})
    return result
  }

  /** Follows what was pushed: heads move, merge requests are merged, or closed when their branch is gone. */
  async settle(): Promise<void> {
    const branches = await this.bare.branches()
    for (const one of this.mergeRequests) {
      if (one.state !== "opened" || one.sourceProject !== undefined) continue
      const [head, base] = [branches.get(one.sourceBranch), branches.get(one.targetBranch)]
      if (head === undefined || base === undefined) {
        one.state = "closed"
        one.updatedAt = this.instant()
        continue
      }
      if (head !== one.sha) {
        one.sha = head
        one.baseSha = base
        one.counts = await this.bare.counts(base, head)
        one.updatedAt = this.instant()
      }
      if (await this.bare.contains(base, head)) {
        one.state = "merged"
        one.updatedAt = this.instant()
      }
    }
  }

  /** Adds an open merge request, also between branches that are not there, as GitLab does. */
  async open(
    fields: Pick<MergeRequest, "author" | "description" | "sourceBranch" | "sourceProject" | "targetBranch" | "title">
  ): Promise<MergeRequest> {
    const branches = await this.bare.branches()
    const [sha = null, baseSha = null] = [branches.get(fields.sourceBranch), branches.get(fields.targetBranch)]
    const at = this.instant()
    const one: MergeRequest = {
      ...fields,
      id: this.nextId(),
      iid: this.mergeRequests.length + 1,
      state: "opened",
      labels: new Set(),
      reviewers: [],
      createdAt: at,
      updatedAt: at,
      sha,
      baseSha,
      counts: sha === null || baseSha === null
        ? { additions: 0, deletions: 0, changedFiles: 0, commits: 0 }
        : await this.bare.counts(baseSha, sha),
      unpreparedReads: this.#surroundings.unpreparedReads
    }
    this.mergeRequests.push(one)
    return one
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

  /** A comment of a person, or GitLab's own text. */
  note(number: number, fields: Partial<Omit<Note, "createdAt" | "id" | "number">> = {}): Note {
    const at = this.instant()
    const note: Note = {
      author: { id: 1, username: "octocat" },
      body: "",
      system: false,
      internal: false,
      path: null,
      line: null,
      isOfOldLine: false,
      of: "MergeRequest",
      ...fields,
      id: this.nextId(),
      number,
      createdAt: at,
      updatedAt: at
    }
    this.notes.push(note)
    const about = note.of === "MergeRequest" ? this.mergeRequests : this.issues
    const on = about.find(({ iid }) => iid === number)
    if (on !== undefined) on.updatedAt = at
    this.events.push({ id: this.nextId(), action: "commented on", note, title: on?.title ?? "", author: note.author, createdAt: at })
    return note
  }

  pipeline(sha: string, fields: Partial<Omit<Pipeline, "id" | "sha">> = {}): Pipeline {
    const at = this.instant()
    const pipeline: Pipeline = {
      ref: this.defaultBranch,
      source: "push",
      status: "running",
      createdAt: at,
      updatedAt: at,
      ...fields,
      id: this.nextId(),
      sha
    }
    this.pipelines.push(pipeline)
    return pipeline
  }

  status(sha: string, fields: Partial<Omit<Status, "id" | "sha">> = {}): Status {
    const status: Status = {
      name: "job",
      status: "running",
      allowFailure: false,
      pipeline: null,
      finishedAt: null,
      log: null,
      ...fields,
      id: this.nextId(),
      sha
    }
    this.statuses.push(status)
    return status
  }

  issue(fields: Partial<Pick<Issue, "author" | "confidential" | "description" | "title">> = {}): Issue {
    const at = this.instant()
    const issue: Issue = {
      author: { id: 1, username: "octocat" },
      title: "Issue",
      description: "",
      confidential: false,
      ...fields,
      id: this.nextId(),
      iid: this.issues.length + 1,
      labels: new Set(),
      createdAt: at,
      updatedAt: at
    }
    this.issues.push(issue)
    return issue
  }

  /** A person adds a label. */
  label(of: LabelEvent["of"], iid: number, label: string, user: User = { id: 1, username: "octocat" }): LabelEvent {
    const on = (of === "issues" ? this.issues : this.mergeRequests).find((one) => one.iid === iid)
    if (on === undefined) throw new Error(`no ${of} ${iid}`)
    on.labels.add(label)
    const createdAt = this.instant()
    on.updatedAt = createdAt
    const event: LabelEvent = { id: this.nextId(), of, iid, user, action: "add", label, createdAt }
    this.labelEvents.push(event)
    return event
  }

  /** The old path answers with a redirection from now on. */
  move(path: string): void {
    this.formerPaths.push(this.path)
    this.path = path
  }
}
