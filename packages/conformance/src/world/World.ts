/**
 * State that the rules of a run share: clients, sandboxes that are made once (fixtures), and replies that several rules examine
 * (evidence). Fixtures are made through `setup`, so that a test can put a faulty server in front of `http` only.
 */
import { randomBytes } from "node:crypto"
import { answered, type Ask, Client, type EventStream, isRefusal, refused, type Reply, summary } from "../client/Client.ts"
import { errorOf } from "../client/ErrorText.ts"
import { holds, type Json, Miss, Skip } from "../client/Expect.ts"
import { knows, type Names, OURS } from "../client/Names.ts"
import { turnId } from "./Identity.ts"

/** Keys, repositories and time that some rules need and a run may lack. */
export type Need = "other-key" | "no-scope-key" | "repo" | "second-repo" | "slow"

/** How to reach the service, and which rules may run. */
export interface Options {
  /** The base address of the server, without a slash at its end. */
  readonly url: string
  readonly key: string
  /** A key of another grant. */
  readonly otherKey: string | null
  /** A key without the scope `sandboxes`. */
  readonly noScopeKey: string | null
  /** Repositories that sandboxes can clone, `owner/name`; the first has a file in its top folder. */
  readonly repos: ReadonlyArray<string>
  /** Also run slow rules. */
  readonly slow: boolean
  /** How long a silent stream is read until its heartbeat. */
  readonly heartbeatMillis: number
  readonly onWait: (seconds: number) => void
  /** The longest time for an answer of the server, and for a directive of its agent. Default 30 s. */
  readonly timeoutMillis?: number
  /** The model of sandboxes. Default: ours. */
  readonly model?: string
  /** The server's names, if they differ from ours. */
  readonly names?: Names
  /** Check only the statements of docs/interface.md. */
  readonly contract?: boolean
}

/** A fixture failed, so the rules that need it cannot be checked. */
export class Unmade extends Skip {
  constructor(name: string, error: unknown) {
    super(`cannot be checked, since the sandbox it needs (${name}) did not come up: ${errorOf(error)}`)
  }
}

/** The base path of the API. */
export const API = "/api/public/v1"
/** The path of sandboxes. */
export const SANDBOXES = `${API}/sandboxes`
/** A sandbox that does not exist: ids are random. */
export const UNKNOWN = `${SANDBOXES}/c_zzzzzzzzzzzz`
const MODEL = "offline/demo"
/** A repository that does not exist. */
export const NO_REPO = "conformance/no-such-repository"
const NO_BRANCH = "conformance/no-such-branch"

const TIMEOUT_MILLIS = 30_000

/** A text that the agent writes into files. It must not appear where arguments of tools do not belong. */
/** The agent's words before a message that it takes into its turn. */
export const INTERRUPTED = "Before the message."
/** The file that a pull request adds before another sandbox continues it. */
export const BEGUN = "conformance/begun.txt"
/** A text that only the kit writes, to look for it in answers. */
export const CANARY = "canary-5d41402a"
/** RIGHT-TO-LEFT OVERRIDE: reverses the display of the following text. */
export const HIDDEN = "\u202e"
/** A command that would look harmless if it were cut, or shown as one line or unescaped. */
export const ASKED = `npm test # ${"and more ".repeat(40)}\nprintf '${HIDDEN}${CANARY}' > conformance-asked.txt`
/** How often `large` repeats a text of 200,000 bytes. */
export const RECALLS = 12
/** The end of the command that `worked` runs. */
export const WORKED = "echo worked"

/** A file in every checkpoint, and a file that exists only after the first checkpoint. */
export const KEPT = "conformance/kept.txt"
/** The path of a file that a turn writes. */
export const LATER = "conformance/later.txt"

/** A name that was never used before. */
export const unique = (): string => randomBytes(9).toString("hex")

/** An event as the log has it. */
export interface Event {
  readonly id: number
  readonly type: string
  readonly turnId: string | undefined
  readonly data: Json
  readonly json: Json
}
/** The event of a JSON body; misses the rule if it is no event. */
export const eventOf = (json: Json): Event => {
  const turn = json.at("turn_id").value
  return {
    id: Number(json.at("id").value),
    type: json.at("type").string,
    turnId: typeof turn === "string" ? turn : undefined,
    data: json.at("data"),
    json
  }
}

/** A fixture's sandbox, with its growing log. */
export class Box {
  readonly id: string
  readonly path: string
  readonly key: string
  readonly events: Array<Event> = []
  readonly #client: Client
  #stream: Promise<EventStream> | undefined
  #reading: Promise<void> = Promise.resolve()

  constructor(client: Client, key: string, id: string) {
    this.#client = client
    this.key = key
    this.id = id
    this.path = `${SANDBOXES}/${id}`
  }

  ask(path: string, ask: Ask = {}): Promise<Reply> {
    return this.#client.ask(`${this.path}${path}`, { key: this.key, ...ask })
  }

  /** Waits until the log has an event that `wanted` accepts, after the event `after`. */
  until(wanted: (event: Event) => boolean, after = 0, what = "an event"): Promise<Event> {
    const work = this.#reading.then(async () => {
      const { timeoutMillis } = this.#client.options
      const deadline = Date.now() + timeoutMillis
      for (;;) {
        const found = this.events.find((event) => event.id > after && wanted(event))
        if (found !== undefined) return found
        const left = deadline - Date.now()
        const block = left <= 0 ? undefined : await (await this.#open()).next(left).catch(() => undefined)
        if (block === undefined) {
          throw new Miss(`${what} in the log of ${this.id} within ${timeoutMillis / 1000} s`, this.events.at(-1)?.json.value)
        }
        if (block === null) {
          // The stream of an ended sandbox ends, but the sandbox can still be terminated.
          this.#stream = undefined
          await new Promise((resolve) => setTimeout(resolve, 100))
        } else if (block.data !== undefined && block.id !== undefined) this.events.push(eventOf(block.data))
      }
    })
    this.#reading = work.then(() => {}, () => {})
    return work
  }

  async #open(): Promise<EventStream> {
    this.#stream ??= this.#client.stream(`${this.path}/events/stream?since=${this.events.at(-1)?.id ?? 0}`, {
      key: this.key
    })
    const stream = await this.#stream
    if (stream.status !== 200 && stream.status !== 204) {
      throw new Miss("200 to a stream from the beginning", stream.status)
    }
    return stream
  }

  status(status: string): Promise<Event> {
    return this.until(
      ({ data, type }) => type === "sandbox.status" && data.at("status").value === status,
      0,
      `status ${status}`
    )
  }

  /** The end of the first turn, by type only. */
  firstEnd(): Promise<Event> {
    return this.until(({ type }) => type === "turn.completed", 0, "the end of a turn")
  }

  turnEnd(turn: string): Promise<Event> {
    return this.until(({ turnId, type }) => type === "turn.completed" && turnId === turn, 0, "the end of a turn")
  }

  /** Waits for the checkpoint after that turn and returns its number. */
  async checkpoint(turn: string): Promise<number> {
    const taken = await this.until(
      ({ data, type }) => type === "sandbox.checkpoint" && data.at("turn_id").value === turn,
      0,
      "the checkpoint of a turn"
    )
    return taken.data.at("checkpoint").number
  }

  /** The number of the newest turn, 0 before the first. */
  get turns(): number {
    return new Set(this.events.flatMap(({ turnId }) => turnId ?? [])).size
  }

  /** Ends the active turn, if any. */
  async idle(): Promise<void> {
    await this.status("running")
    await this.until(({ turnId }) => turnId !== undefined, 0, "the first turn")
    const active = async () => (await this.ask("")).json.at("turn").at("active").value === true
    if (!(await active())) return
    await this.ask("/interrupt", { method: "POST" })
    const { timeoutMillis } = this.#client.options
    for (const deadline = Date.now() + timeoutMillis; await active();) {
      if (Date.now() > deadline) {
        throw new Miss(`the turn of ${this.id} to end within ${timeoutMillis / 1000} s of an interrupt`, undefined)
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  /** Starts a turn when no other is active, and returns its id. */
  async say(prompt: string): Promise<string> {
    await this.idle()
    const reply = await this.ask("/messages", { body: { prompt } })
    answered(reply, 201, "a message")
    const turn = reply.json.at("turnId").string
    await this.until(({ turnId, type }) => turnId === turn && type === "turn.started", 0, "the start of a turn")
    return turn
  }

  async close(): Promise<void> {
    await this.#stream?.then((stream) => stream.close(), () => {})
  }
}

/** Outlives a run: everything that is made for the rules, until `end`. */
export class Session {
  readonly options: Required<Options>
  /** Names of failed fixtures. */
  readonly unmade = new Set<string>()
  readonly setup: Client
  /** How often a request waited for the server's rate limit. */
  waits = 0
  readonly #fixtures = new Map<string, Promise<unknown>>()
  readonly #boxes: Array<Box> = []
  readonly #made = new Map<string, string>()
  readonly #creations = new Set<Promise<Reply>>()
  #over = false

  constructor(options: Options) {
    this.options = { timeoutMillis: TIMEOUT_MILLIS, model: MODEL, names: OURS, contract: false, ...options }
    this.setup = this.client(options.url)
  }

  /** `refusals` collects every 429. */
  client(url: string, refusals: Array<Reply> = []): Client {
    const { key, names, onWait, timeoutMillis } = this.options
    return new Client({
      url,
      key,
      names,
      timeoutMillis,
      onWait: (seconds) => {
        this.waits++
        onWait(seconds)
      },
      onRefusal: (reply) => refusals.push(reply),
      around: async ({ body, key, method, path }, send) => {
        if (path !== SANDBOXES && !path.endsWith("/fork") || (method ?? (body === undefined ? "GET" : "POST")) === "GET" || key === null) {
          return send()
        }
        if (this.#over) throw new Skip("the run is over")
        const creation = send()
        this.#creations.add(creation)
        try {
          const reply = await creation
          if (this.options.repos.length === 0 && reply.status === 403) throw new Skip("the server wants a repository that it knows")
          this.#note(reply, key)
          return reply
        } finally {
          this.#creations.delete(creation)
        }
      }
    })
  }

  #note(reply: Reply, key: string): void {
    if (reply.status !== 201 && reply.status !== 200) return
    try {
      this.#made.set(reply.json.at("id").string, key)
    } catch {
      // Not the reply of a creation: a rule will report it.
    }
  }

  fixture<A>(name: string, make: () => Promise<A>): Promise<A> {
    const known = this.#fixtures.get(name)
    // The name determines the type: each is used by one function.
    if (known !== undefined) return known as Promise<A>
    const made = make().catch((error: unknown) => {
      if (error instanceof Skip) throw error
      this.unmade.add(name)
      throw new Unmade(name, error)
    })
    this.#fixtures.set(name, made)
    return made
  }

  /** Makes a sandbox that lives until the session ends or a rule ends it. */
  async box(
    body: object,
    { headers = {}, key = this.options.key }: { readonly key?: string; readonly headers?: Record<string, string> } = {}
  ): Promise<Box> {
    const reply = await this.setup.ask(SANDBOXES, { body, key, headers })
    if (reply.status === 403) {
      throw new Skip(`the server does not let this key use ${JSON.stringify(body).slice(0, 80)}`)
    }
    return this.#boxOf(reply, key)
  }

  /** Makes a fork with the same lifetime. */
  async fork(of: Box, body: object): Promise<Box> {
    return this.#boxOf(await of.ask("/fork", { body }), of.key)
  }

  #boxOf(reply: Reply, key: string): Box {
    answered(reply, 201, "a creation")
    const box = new Box(this.setup, key, reply.json.at("id").string)
    this.#boxes.push(box)
    return box
  }

  /** Terminates sandboxes that no fixture uses. */
  async tidy(): Promise<void> {
    const kept = new Set(this.#boxes.map(({ id }) => id))
    await this.#terminate([...this.#made].filter(([id]) => !kept.has(id)))
  }

  /** Terminates every sandbox. A running rule makes no more of them. */
  async end(): Promise<void> {
    this.#over = true
    await Promise.allSettled(this.#creations)
    await Promise.all(this.#boxes.map((box) => box.close()))
    await this.#terminate([...this.#made])
    this.setup.close()
  }

  async #terminate(made: ReadonlyArray<readonly [id: string, key: string]>): Promise<void> {
    await Promise.all(made.map(async ([id, key]) => {
      await this.setup.ask(`${SANDBOXES}/${id}/terminate`, { method: "POST", key })
      this.#made.delete(id)
    }))
  }
}

/** One run of the rules against one address. */
export class World {
  readonly session: Session
  readonly http: Client
  readonly options: Required<Options>
  /** Every 429 that a rule got. */
  readonly refusals: Array<Reply> = []
  readonly #evidence = new Map<string, Promise<unknown>>()

  constructor(session: Session, url = session.options.url) {
    this.session = session
    this.options = session.options
    this.http = session.client(url, this.refusals)
  }

  /** Examined once per run. */
  evidence<A>(name: string, look: () => Promise<A>): Promise<A> {
    const known = this.#evidence.get(name)
    if (known !== undefined) return known as Promise<A>
    const found = look()
    this.#evidence.set(name, found)
    return found
  }

  lacks(need: Need): boolean {
    const { noScopeKey, otherKey, repos, slow } = this.options
    switch (need) {
      case "other-key":
        return otherKey === null
      case "no-scope-key":
        return noScopeKey === null
      case "repo":
        return repos.length === 0
      case "second-repo":
        return repos.length < 2
      case "slow":
        return !slow
    }
  }

  get otherKey(): string {
    return this.options.otherKey ?? ""
  }
  /** A repository for requests that clone nothing. */
  get repo(): string {
    return this.options.repos[0] ?? "conformance/example"
  }
  get secondRepo(): string {
    return this.options.repos[1] ?? ""
  }

  // -------------------------------------------------------------------------------------------------------------
  // Asking

  creation(more: object = {}): Record<string, unknown> {
    return {
      repos: [{ fullName: this.repo }],
      prompt: "Conformance: nothing to do. [[say Hello.]]",
      model: this.options.model,
      ...more
    }
  }

  create(more: object = {}, headers: Record<string, string> = {}): Promise<Reply> {
    return this.http.ask(SANDBOXES, { body: this.creation(more), headers })
  }

  /**
   * A creation with a key that is bound to another request. It shows whether the body is valid without a new sandbox, because bodies
   * are refused (400) before keys are checked (409).
   */
  async probe(more: object): Promise<Reply> {
    return this.probeRaw(JSON.stringify(this.creation({ prompt: "probe", ...more })))
  }

  async probeRaw(body: string | Uint8Array): Promise<Reply> {
    const { key } = await this.keyed()
    return this.http.ask(SANDBOXES, { body, headers: { "idempotency-key": key } })
  }

  /** The body is valid. */
  async accepts(more: object, what: string): Promise<void> {
    const reply = await this.probe(more)
    const good = reply.status === 201 || reply.status === 200 || isRefusal(reply, 409, "idempotency_conflict")
    if (!good) throw new Miss(`${what} to be accepted`, undefined, summary(reply))
  }

  async refuses(more: object, what: string, code = "invalid_request"): Promise<void> {
    refused(await this.probe(more), 400, code, what)
  }

  // -------------------------------------------------------------------------------------------------------------
  // Fixtures

  /** A creation under an Idempotency-Key; its sandbox is terminated at once. */
  keyed(): Promise<
    {
      readonly key: string
      readonly body: Record<string, unknown>
      readonly id: string
      readonly location: string | undefined
    }
  > {
    return this.session.fixture("keyed", async () => {
      const key = `conformance ${unique()}`
      const body = {
        repos: [{ fullName: this.repo }, ...(this.secondRepo === "" ? [] : [{ fullName: this.secondRepo }])],
        prompt: "Conformance: a creation that is repeated.",
        metadata: { b: "2", a: "1" }
      }
      const { setup } = this.session
      const reply = await setup.ask(SANDBOXES, { body, headers: { "idempotency-key": key } })
      answered(reply, 201, "a creation")
      const id = reply.json.at("id").string
      await setup.ask(`${SANDBOXES}/${id}/terminate`, { method: "POST" })
      return { key, body, id, location: reply.header("location") }
    })
  }

  /** Its first turn succeeded after thoughts, texts, changed files and commands. The sandbox is still running. */
  worked(): Promise<Box> {
    return this.session.fixture("worked", async () => {
      const script = [
        "mkdir -p conformance/dir conformance/big && cd conformance",
        "printf 'SECRET=1\\n' > .env && printf 'A=\\n' > .env.example && printf 'ok\\n' > AGENTS.md",
        "printf '\\001\\000\\002' > binary.bin && : > empty && printf 'b\\n' > B.txt && printf 'a\\n' > dir/a.txt",
        "printf 'q\\n' > 'na\u00efve \"q\" (1).txt'",
        "ln -s B.txt link && printf 'h\\n' > hard-1 && ln hard-1 hard-2 && mkfifo fifo",
        "printf '*\\n' > big/.gitignore && truncate -s 104857600 big/most && truncate -s 104857601 big/over",
        "truncate -s 1048577 big/text",
        "cd .. && for f in *; do if test -f \"$f\"; then echo changed >> \"$f\"; break; fi; done",
        WORKED
      ].join(" && ")
      if (this.options.contract && !knows(this.options.names, "shell")) return this.wrote()
      const box = await this.session.box(this.creation({
        prompt: [
          "Conformance: work.",
          ...(knows(this.options.names, "plan") ? ["[[plan + Look around; > Change files; - Say so]]"] : []),
          "[[think Looking around.]]",
          "[[say I will change some files.]]",
          `[[write path=conformance/new.txt content=${CANARY}]]`,
          `[[shell ${script}]]`,
          "[[slow 12 60]]",
          "[[shell exit 3]]",
          "[[say Done.]]"
        ].join("\n")
      }))
      const end = await box.turnEnd(turnId(box.id, 1))
      holds(end.data.at("state").value === "succeeded", "the offline agent's first turn to succeed", end.data.value)
      // No more events come.
      await box.checkpoint(turnId(box.id, 1))
      return box
    })
  }

  /** Like `worked`, for an agent that runs no commands. */
  async wrote(): Promise<Box> {
    const box = await this.session.box(this.creation({
      prompt: `Conformance: work.\n[[say I will change some files.]]\n[[write path=conformance/new.txt content=${CANARY}]]\n[[say Done.]]`
    }))
    await box.firstEnd()
    return box
  }

  /** A second turn followed the first one's checkpoint; then that checkpoint was restored. */
  restored(): Promise<{ readonly box: Box; readonly checkpoint: number; readonly before: ReadonlyArray<Event> }> {
    return this.session.fixture("restored", async () => {
      const box = await this.session.box(
        this.creation({ prompt: `Conformance: go back.\n[[write path=${KEPT} content=first]]` })
      )
      const checkpoint = await box.checkpoint(turnId(box.id, 1))
      const turn = await box.say(`Conformance: go on.\n[[write path=${KEPT} content=second]]\n[[write path=${LATER} content=second]]`)
      await box.checkpoint(turn)
      const before = [...box.events]
      answered(await box.ask("/restore", { body: { checkpoint } }), 200, "restore")
      const done = await box.until(({ type }) => type === "sandbox.restored", 0, "the restored checkpoint")
      await box.until(({ id, type }) => type === "sandbox.checkpoint" && id > done.id, 0, "the checkpoint of what was restored")
      return { box, checkpoint, before }
    })
  }

  /** A fork of the first turn's checkpoint, and its origin, which had a second turn before. The fork's own turn has ended. */
  forked(): Promise<{ readonly box: Box; readonly origin: Box; readonly checkpoint: number }> {
    return this.session.fixture("forked", async () => {
      const origin = await this.session.box(
        this.creation({ prompt: `Conformance: to be forked.\n[[write path=${KEPT} content=first]]` })
      )
      const checkpoint = await origin.checkpoint(turnId(origin.id, 1))
      await origin.checkpoint(await origin.say(`Conformance: go on.\n[[write path=${KEPT} content=second]]`))
      const box = await this.session.fork(origin, { checkpoint, prompt: `Conformance: fork.\n[[write path=${LATER} content=fork]]` })
      await box.checkpoint(turnId(box.id, 1))
      return { box, origin, checkpoint }
    })
  }

  /** Terminated after two turns, each with a checkpoint. A fork was made afterwards, and its own turn has ended. */
  forkedLate(): Promise<{ readonly box: Box; readonly origin: Box; readonly checkpoint: number }> {
    return this.session.fixture("forked late", async () => {
      const origin = await this.session.box(
        this.creation({ prompt: `Conformance: to be over.\n[[write path=${KEPT} content=first]]` })
      )
      await origin.checkpoint(turnId(origin.id, 1))
      const checkpoint = await origin.checkpoint(await origin.say(`Conformance: go on.\n[[write path=${KEPT} content=second]]`))
      await origin.ask("/terminate", { method: "POST" })
      await origin.status("terminated")
      const box = await this.session.fork(origin, { prompt: `Conformance: fork.\n[[write path=${LATER} content=fork]]` })
      await box.checkpoint(turnId(box.id, 1))
      return { box, origin, checkpoint }
    })
  }

  /** Its first turn changed a file that can be published. */
  changed(): Promise<Box> {
    return this.session.fixture("changed", async () => {
      const box = await this.session.box(
        this.creation({ prompt: "Conformance: publish.\n[[write path=conformance/published.txt content=1]]" })
      )
      await box.firstEnd()
      return box
    })
  }

  /** Continues the pull request of another sandbox, which added `BEGUN`. Its first turn changed another file. */
  continued(): Promise<{ readonly box: Box; readonly branch: string; readonly number: number }> {
    return this.session.fixture("continued", async () => {
      const origin = await this.session.box(
        this.creation({ prompt: `Conformance: to be continued.\n[[write path=${BEGUN} content=begun]]` })
      )
      await origin.firstEnd()
      const pull = answered(await origin.ask("/pull-request", { method: "POST" }), 200, "publishing").json.at("pullRequest")
      const [number, branch] = [pull.at("number").number, pull.at("headRef").string]
      const prompt = "Conformance: continue.\n[[write path=conformance/continued.txt content=2]]"
      const box = await this.session.box(this.creation({ continue: { pullRequest: number }, prompt }))
      await box.firstEnd()
      return { box, branch, number }
    })
  }

  /** The sandbox of {@link continued}, after a sync with its source host. */
  synced(): Promise<Box> {
    return this.session.fixture("synced", async () => {
      const { box } = await this.continued()
      await box.idle()
      const last = box.events.at(-1)?.id ?? 0
      answered(await box.ask("/sync", { method: "POST" }), 200, "sync")
      await box.until(({ type }) => type === "sandbox.synced", last, "the end of the sync")
      return box
    })
  }

  /** Asks before each change. It waits for its first decision until a rule decides or interrupts. */
  asking(): Promise<Box> {
    return this.session.fixture("asking", async () => {
      const box = await this.session.box(
        this.creation({ toolApprovalMode: "prompt", prompt: "Conformance: ask." + writes(1) })
      )
      await box.until(({ type }) => type === "approval.requested", 0, "a request for approval")
      return box
    })
  }

  /** A new turn that waits for the first of `calls` approvals. */
  async pending(calls = 1): Promise<{ readonly box: Box; readonly turn: string; readonly approval: string }> {
    const box = await this.asking()
    const turn = await box.say("Conformance: ask again." + writes(calls))
    const asked = await box.until(
      ({ turnId, type }) => turnId === turn && type === "approval.requested",
      0,
      "a request for approval"
    )
    return { box, turn, approval: asked.data.at("approval_id").string }
  }

  /** Its log exceeds the byte limit of a page but not its event limit: the agent repeats a long prompt. */
  large(): Promise<Box> {
    return this.session.fixture("large", async () => {
      const box = await this.session.box(
        this.creation({ prompt: `Conformance: remember this. [[say Ready.]] ${"\u{1f600}".repeat(50_000)}` })
      )
      await box.turnEnd(turnId(box.id, 1))
      // A tool call separates them into texts of their own.
      await box.turnEnd(await box.say(`Conformance: ${"[[recall]] [[shell true]] ".repeat(RECALLS)}`))
      return box
    })
  }

  /** Takes prompts and changes nothing. */
  busy(): Promise<Box> {
    return this.session.fixture("busy", async () => {
      const box = await this.session.box(this.creation({ prompt: "Conformance: [[say Ready.]]" }))
      await box.turnEnd(turnId(box.id, 1))
      return box
    })
  }

  /** `busy` without an active turn. */
  async resting(): Promise<Box> {
    const box = await this.busy()
    await box.idle()
    return box
  }

  /** `busy` in a turn that does not end by itself. */
  async hanging(): Promise<{ readonly box: Box; readonly turn: string; readonly n: number }> {
    const box = await this.busy()
    const turn = await box.say("Conformance: [[hang]]")
    return { box, turn, n: box.turns }
  }

  /** Another sandbox in such a turn, for waiting messages. Withdrawn messages have numbers of turns too. */
  async waiting(): Promise<{ readonly box: Box; readonly turn: string }> {
    const box = await this.session.fixture("waiting", () => this.session.box(this.creation({ prompt: "Conformance: [[say Ready.]]" })))
    return { box, turn: await box.say("Conformance: [[hang]]") }
  }

  /** A turn with waiting messages: one was withdrawn, one got the next turn, and one steered it, if that is supported. */
  queued(): Promise<{ readonly box: Box; readonly steered: string | null }> {
    return this.session.fixture("queued", async () => {
      const box = await this.session.box(this.creation({ prompt: "Conformance: [[say Ready.]]" }))
      const turn = await box.say(`Conformance: [[say ${INTERRUPTED}]] [[listen]] [[say After.]]`)
      const told = ({ data, turnId, type }: Event) =>
        type === "message.updated" && turnId === turn && data.at("text").string.trim() === INTERRUPTED
      await box.until(told, 0, "what is said before a message")
      const send = (prompt: string, whenBusy: "queue" | "steer") => box.ask("/messages", { body: { prompt, whenBusy } })
      const [back = "", next = ""] = [
        answered(await send("Conformance: [[say Never.]]", "queue"), 201, "a message that queues").json.at("turnId").string,
        answered(await send("Conformance: [[say Next.]]", "queue"), 201, "a message that queues").json.at("turnId").string
      ]
      answered(await box.ask(`/messages/${back}`, { method: "DELETE" }), 200, "taking a message back")
      const steer = await send("Conformance: [[say Steered.]]", "steer")
      const steered = steer.status === 201 ? steer.json.at("turnId").string : null
      if (steered === null) answered(await box.ask("/interrupt", { method: "POST" }), 200, "an interrupt")
      else {
        await box.until(({ data, type }) => type === "message.steered" && data.at("message_id").value === steered, 0, "message.steered")
      }
      await box.turnEnd(next)
      return { box, steered }
    })
  }

  /** Terminated while it waited for an approval. */
  ended(): Promise<
    { readonly box: Box; readonly approval: string; readonly commandId: string; readonly revision: number }
  > {
    return this.session.fixture("ended", async () => {
      const box = await this.session.box(
        this.creation({
          toolApprovalMode: "prompt",
          prompt: `Conformance: end.${knows(this.options.names, "shell") ? ` [[shell ${ASKED}]]` : writes(1)}`
        })
      )
      const asked = await box.until(({ type }) => type === "approval.requested", 0, "a request for approval")
      const { json } = await box.ask("/terminate", { method: "POST" })
      await box.status("terminated")
      return {
        box,
        approval: asked.data.at("approval_id").string,
        commandId: json.at("commandId").string,
        revision: json.at("revision").number
      }
    })
  }

  /** Never ran, because its branch does not exist. */
  failed(name = "failed"): Promise<Box> {
    return this.session.fixture(name, async () => {
      const box = await this.session.box(this.creation({ repos: [{ fullName: this.repo, ref: NO_BRANCH }] }))
      await box.status("failed")
      return box
    })
  }

  /** Two repositories, a change in each. */
  several(): Promise<Box> {
    return this.session.fixture("several", async () => {
      const box = await this.session.box(this.creation({
        repos: [{ fullName: this.repo }, { fullName: this.secondRepo }],
        prompt: `Conformance: [[write path=first.txt content=1]] [[write repo=${this.secondRepo} path=second.txt content=2]]`
      }))
      await box.turnEnd(turnId(box.id, 1))
      return box
    })
  }

  /** A running sandbox of the other grant that waits for an approval. */
  foreign(): Promise<{ readonly box: Box; readonly approval: string }> {
    return this.session.fixture("foreign", async () => {
      const box = await this.session.box(
        this.creation({ toolApprovalMode: "prompt", prompt: "Conformance: foreign." + writes(1) }),
        { key: this.otherKey }
      )
      const asked = await box.until(({ type }) => type === "approval.requested", 0, "a request for approval")
      return { box, approval: asked.data.at("approval_id").string }
    })
  }

  // -------------------------------------------------------------------------------------------------------------
  // Evidence

  async get(box: Box, path = "", ask: Ask = {}): Promise<Reply> {
    return this.http.ask(`${box.path}${path}`, { key: box.key, ...ask })
  }

  post(box: Box, path: string, body?: unknown, ask: Ask = {}): Promise<Reply> {
    return this.http.ask(`${box.path}${path}`, {
      key: box.key,
      method: "POST",
      ...(body === undefined ? {} : { body }),
      ...ask
    })
  }

  /** The whole log, page by page. */
  async readLog(box: Box): Promise<ReadonlyArray<Event>> {
    const found: Array<Event> = []
    for (let after = "0"; found.length < 10_000;) {
      const reply = await this.get(box, `/events?after=${after}`)
      answered(reply, 200, "a list of events")
      const events = reply.json.at("data").items.map(eventOf)
      if (events.length === 0) break
      found.push(...events)
      const next = reply.json.at("nextCursor").string
      holds(next !== after, "a nextCursor that leads on", next)
      after = next
    }
    return found
  }

  /** The log of `worked`. */
  log(): Promise<ReadonlyArray<Event>> {
    return this.evidence("log", async () => this.readLog(await this.worked()))
  }

  /** The log of `ended`, with an approval and the end. */
  endedLog(): Promise<ReadonlyArray<Event>> {
    return this.evidence("ended log", async () => this.readLog((await this.ended()).box))
  }

  /** One ordinary creation, not repeated. */
  created(): Promise<Reply> {
    return this.evidence(
      "created",
      () => this.create({ metadata: { ticket: "C-1" }, title: "  A title \u00e9 e\u0301 \u{1f600} " })
    )
  }
}

const writes = (calls: number) =>
  Array.from({ length: calls }, (_, i) => ` [[write path=conformance-asked-${i}.txt content=${CANARY}]]`).join("")
