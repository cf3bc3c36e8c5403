/**
 * Runs one git process so that nothing but our own files tells it what to do: no configuration, hook, filter,
 * credential helper, pager or editor of this machine or of a repository takes part.
 */
import { settings } from "@slipway/machine/network/OutgoingRequest"
import { variables } from "@slipway/machine/network/ProxySettings"
import { bundle } from "@slipway/machine/network/TrustedAuthorities"
import { type Child, killGroup, Spawn } from "@slipway/machine/node/spawner/Spawn"
import { type Duration, Effect, Redacted, Schema } from "effect"
import { getPriority, setPriority } from "node:os"

/** A failed git process. The caller knows what the failure means. */
export class GitFailed extends Schema.TaggedError<GitFailed>()("GitFailed", {
  /** The git command without its arguments. */
  command: Schema.String,
  /** `output`: it wrote more than it may. `lost`: its box, or the way to it, went away; it may be there again. */
  reason: Schema.Literals(["exit", "timeout", "output", "lost"]),
  code: Schema.NullOr(Schema.Int),
  /** At most 4,000 characters, scrubbed of credentials. May name paths of this machine: for the log only. */
  stderr: Schema.String
}) {
  override get message() {
    return `git ${this.command} failed (${this.reason === "exit" ? this.code : this.reason}): ${this.stderr}`
  }
}

export interface GitOptions {
  /** Beside the fixed environment: `GIT_DIR` and the like. */
  readonly env?: Readonly<Record<string, string>>
  /** More `name=value` configuration. It shows in the process list, so no secrets. */
  readonly config?: ReadonlyArray<string>
  /** Reaches nothing but this machine: what it starts there, hooks for one, gets no address of a proxy, which may hold a password. */
  readonly isLocal?: boolean
  /** Sent as a header to `origin` alone. It travels in the environment of this one process. */
  readonly authorization?: { readonly origin: string; readonly value: Redacted.Redacted }
  /** A promise: the process has started before it resolves. */
  readonly input?: string | Uint8Array | Promise<string>
  /** Descriptor of a file that is read in place of `input`, from its beginning. */
  readonly inputFile?: number
  /** Descriptor of an empty file that takes the output, at most `maximumBytes`; nothing of it comes through this process. */
  readonly outputFile?: number
  /** Takes the output piece by piece; it writes no more than that before each is taken. Nothing is answered then. Never rejects. */
  readonly take?: (bytes: Uint8Array) => Promise<void>
  /** Exit codes beside 0 that are an answer. */
  readonly answers?: ReadonlyArray<number>
  readonly timeout?: Duration.Input
  readonly maximumBytes?: number
  /** Paths are patterns, as those of `.gitignore` are: they come from us, never from a repository. */
  readonly isGlob?: boolean
  /** For objects that were not looked at yet, which may be made to take memory and time: under limits of the kernel, behind other work. */
  readonly isLimited?: boolean
}

// Variables for reaching the source host, with those of the proxy. Git gets no others of our environment.
const INHERITED = ["PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"]

/** The environment of every git process of ours, wherever it runs. */
export const ENVIRONMENT = {
  HOME: "/nonexistent",
  LC_ALL: "C",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_ATTR_NOSYSTEM: "1",
  GIT_TERMINAL_PROMPT: "0",
  GIT_ASKPASS: "/bin/false",
  SSH_ASKPASS: "/bin/false",
  GIT_OPTIONAL_LOCKS: "0",
  GIT_NO_REPLACE_OBJECTS: "1"
}

/** `name=value` configuration of every git process of ours. */
export const CONFIG = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.untrackedCache=false",
  "core.attributesFile=/dev/null",
  "core.excludesFile=/dev/null",
  "core.sshCommand=/bin/false",
  "core.symlinks=true",
  "core.autocrlf=false",
  "core.protectNTFS=true",
  "core.protectHFS=true",
  "credential.helper=",
  "diff.external=",
  "diff.ignoreSubmodules=all",
  "submodule.recurse=false",
  "fetch.recurseSubmodules=false",
  "protocol.allow=never",
  "http.followRedirects=false",
  // A connection that moves less than 1 kB/s for a minute is dead.
  "http.lowSpeedLimit=1000",
  "http.lowSpeedTime=60",
  "transfer.fsckObjects=true",
  // Blemishes of old, well-known histories that source hosts accept too.
  "fetch.fsck.badTimezone=ignore",
  "fetch.fsck.missingSpaceBeforeDate=ignore",
  "fetch.fsck.zeroPaddedFilemode=ignore",
  // Packs are written whole and synced, loose objects are not: after a crash an object is there with all it needs, or not at all.
  "fetch.unpackLimit=1",
  "core.fsync=committed,reference",
  "gc.auto=0",
  "maintenance.auto=false",
  "commit.gpgSign=false",
  "push.gpgSign=false",
  // So a repository is always named by `--git-dir` or `GIT_DIR`, never found.
  "safe.bareRepository=explicit",
  "safe.directory=*",
  "advice.addEmbeddedRepo=false"
]

/** Seconds of a processor, and KiB of address space: indexes of packs are mapped into it, some of them large. */
const LIMITS = "ulimit -t 60; ulimit -v 1572864"
const LIMITED = `${LIMITS}; exec git "$@"`
/** In blocks of 512 bytes. */
const LIMITED_FILE = `ulimit -c 0; ulimit -f "$1"; shift; exec git "$@"`
/** How far behind other work. It is set from here: `nice` would be one more program to start for each. */
const BEHIND = 10
const LEAST_PRIORITY = 19
const LIMITED_CONFIG = ["core.packedGitWindowSize=32m", "core.packedGitLimit=256m", "core.bigFileThreshold=16m"]

/** As the C library says it. */
const FILE_TOO_LARGE = /File too large/u

const GLOBAL_ARGUMENTS = ["--no-pager", ...CONFIG.flatMap((entry) => ["-c", entry])]

const MAXIMUM_STDERR = 4_000

const putBehind = ({ pid }: Child): void => {
  try {
    setPriority(pid, Math.min(LEAST_PRIORITY, getPriority() + BEHIND))
  } catch {
    // It has ended.
  }
}

const network = (): Record<string, string> => {
  const authorities = bundle()
  return { ...variables(settings()), ...authorities === null ? {} : { GIT_SSL_CAINFO: authorities } }
}

const inherited = (isLocal: boolean): Record<string, string> => ({
  ...Object.fromEntries((isLocal ? ["PATH"] : INHERITED).flatMap((name) => {
    const value = process.env[name]
    return value === undefined ? [] : [[name, value]]
  })),
  ...isLocal ? {} : network()
})

const authorizationEnvironment = (authorization: GitOptions["authorization"]): Record<string, string> =>
  authorization === undefined ? {} : {
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: `http.${authorization.origin}/.extraHeader`,
    GIT_CONFIG_VALUE_0: `Authorization: ${Redacted.value(authorization.value)}`
  }

const scrub = (stderr: string, authorization: GitOptions["authorization"]): string => {
  const secrets = authorization === undefined ? [] : Redacted.value(authorization.value).split(" ").filter((part) => part.length > 8)
  return secrets.reduce((text, secret) => text.replaceAll(secret, "***"), stderr)
    .replace(/(authorization:\s*\w+\s+)\S+/giu, "$1***")
    .replace(/\/\/[^/@\s]*@/gu, "//***@")
    .replace(/\bgh[a-z]_\w+|github_pat_\w+/gu, "***")
    .slice(0, MAXIMUM_STDERR)
}

/**
 * The standard output of git. `args` start with the git command (global options before it go into `options`). Interruption and the limits
 * (default: one minute, 64 MiB) kill the process with all it started.
 */
export const git = (
  args: readonly [command: string, ...ReadonlyArray<string>],
  options: GitOptions = {}
): Effect.Effect<Buffer, GitFailed> => {
  const { authorization, config = [], input, inputFile, isLimited = false, outputFile, take, timeout = "1 minute" } = options
  const { maximumBytes = take === undefined ? 67_108_864 : Number.POSITIVE_INFINITY } = options
  const fail = (reason: GitFailed["reason"], code: number | null, stderr: string) =>
    new GitFailed({ command: args[0], reason, code, stderr: scrub(stderr, authorization) })

  return Effect.flatMap(Spawn, (spawn) =>
    Effect.callback<Buffer, GitFailed>((resume) => {
      const settings = [...isLimited ? LIMITED_CONFIG : [], ...config]
      const all = [options.isGlob === true ? "--glob-pathspecs" : "--literal-pathspecs", ...GLOBAL_ARGUMENTS,
        ...settings.flatMap((entry) => ["-c", entry]), ...args]
      const [program, programArguments] = outputFile !== undefined
        ? ["/bin/sh", ["-c", isLimited ? `${LIMITS}; ${LIMITED_FILE}` : LIMITED_FILE, "slipway-git", `${Math.ceil(maximumBytes / 512)}`,
          ...all]] as const
        : isLimited
        ? ["/bin/sh", ["-c", LIMITED, "slipway-git", ...all]] as const
        : ["git", all] as const
      let child: Child | undefined
      let isStopped = false
      let taking: Promise<void> = Promise.resolve()
      // A process group of its own, so that its helpers (git-remote-https, index-pack) can be killed with it.
      const kill = () => {
        isStopped = true
        if (child !== undefined && child.ended() === null) killGroup(child.pid)
      }
      const chunks: Array<Buffer> = []
      let size = 0
      let stderr = ""
      const attend = (started: Child) => {
        child = started
        if (isStopped) kill()
        if (isLimited || outputFile !== undefined) putBehind(started)
        child.stdout?.on("data", (chunk: Buffer) => {
          size += chunk.length
          if (size > maximumBytes) kill()
          else if (take === undefined) chunks.push(chunk)
          else {
            started.stdout?.pause()
            // One after the other: what is left at its end comes without having been asked for.
            const taken = taking.then(() => isStopped ? undefined : take(chunk))
            taking = taken
            void taken.then(() => started.stdout?.resume())
          }
        })
        child.stderr.on("data", (chunk: Buffer) => {
          if (stderr.length < MAXIMUM_STDERR) stderr += chunk.toString()
        })
        // A process that ends before it read everything says why by its exit code.
        if (input instanceof Promise) void input.then((late) => started.stdin?.end(late))
        else child.stdin?.end(input ?? "")
        return child.closed
      }
      const env = { ...inherited(options.isLocal === true), ...ENVIRONMENT, ...options.env, ...authorizationEnvironment(authorization) }
      const closed = spawn(program, programArguments, { cwd: "/", env, inputFile, outputFile }).then(attend).then(async (ended) => {
        if (!isStopped) await taking
        return ended
      }).then(
        ({ code, signal }) =>
          resume(
            size > maximumBytes || signal === "SIGXFSZ" || outputFile !== undefined && FILE_TOO_LARGE.test(stderr) ?
              fail("output", code, stderr)
              : code === 0 || code !== null && options.answers?.includes(code) === true ?
              Effect.succeed(Buffer.concat(chunks))
              : fail("exit", code, stderr)
          ),
        (cause) => resume(Effect.die(new Error("git could not be started; is it installed and on PATH?", { cause })))
      )
      return Effect.promise(() => {
        kill()
        return closed
      })
    })).pipe(
      Effect.timeoutOrElse({ duration: timeout, orElse: () => fail("timeout", null, "") }),
      // The arguments may name branches and paths.
      Effect.withSpan(`git ${args[0]}`, { attributes: { "process.executable.name": "git" } })
    )
}

/** Output that is one line: a commit id, a mode. */
export const line = (output: Buffer): string => output.toString().trim()

/** NUL-terminated fields of `-z` output, one after the other. Bytes, because a file name need not be text. */
export function* eachField(output: Buffer): Generator<Buffer, undefined> {
  for (let start = 0, end = 0; (end = output.indexOf(0, start)) >= 0; start = end + 1) yield output.subarray(start, end)
}

/** All of {@link eachField}. */
export const fields = (output: Buffer): Array<Buffer> => [...eachField(output)]

/** The other way round, for `-z --stdin`. */
export const terminated = (values: ReadonlyArray<Buffer>): Buffer => {
  const nul = Buffer.from([0])
  return Buffer.concat(values.flatMap((value) => [value, nul]))
}
