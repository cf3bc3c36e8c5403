/** The isolation of sandboxes and their limits. */
import * as AllowList from "@slipway/machine/egress/AllowList"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  isolation: Setting.withDefault({
    name: "SLIPWAY_ISOLATION",
    type: Type.oneOf(["auto", "bubblewrap", "docker", "gvisor", "runner", "kubernetes", "none"]),
    default: "auto",
    about: "Isolation of agents by bubblewrap, this machine's Docker daemon, or gVisor's runsc; if it fails, the service does not " +
      "start. runner: a machine for each sandbox, made by SLIPWAY_RUNNER_MACHINES. kubernetes (experimental): a pod for each sandbox " +
      "(docs/operating/machines.md). auto: bubblewrap if possible, else only the offline agent runs. none: agents with a model " +
      "account run as this user, without isolation. See slipway doctor.",
    role: "worker"
  }),
  runnerMachines: Setting.optional({
    name: "SLIPWAY_RUNNER_MACHINES",
    type: Type.file,
    about: "Program that makes machines with SLIPWAY_ISOLATION=runner (docs/operating/machines.md). It runs as the service's user, " +
      "with only PATH, HOME, LANG and TMPDIR of its environment.",
    role: "worker"
  }),
  dockerImage: Setting.withDefault({
    name: "SLIPWAY_DOCKER_IMAGE",
    type: Type.text("the name of an image"),
    default: "node:24-bookworm",
    about: "Image of sandboxes with SLIPWAY_ISOLATION=docker, pulled if missing. It needs glibc, sh, unshare and git.",
    role: "worker"
  }),
  dockerImages: Setting.optional({
    name: "SLIPWAY_DOCKER_IMAGES",
    type: Type.images,
    about: "Images that repositories may ask for in their devcontainer.json, with SLIPWAY_ISOLATION=docker, such as " +
      "golang:1.25-bookworm,python:3.13-bookworm@sha256:…. Each needs what SLIPWAY_DOCKER_IMAGE needs, and is pulled at the start. " +
      "Other requests get SLIPWAY_DOCKER_IMAGE.",
    role: "worker"
  }),
  toolchains: Setting.optional({
    name: "SLIPWAY_TOOLCHAINS",
    type: Type.folders,
    about: "Folders with programs for repositories, of a version manager or unpacked, such as /opt/mise,/usr/local/go. Sandboxes see " +
      "them read-only, and find their programs first. They may hold no secrets.",
    role: "worker"
  }),
  dockerSocket: Setting.withDefault({
    name: "SLIPWAY_DOCKER_SOCKET",
    type: Type.text("a file"),
    default: "/var/run/docker.sock",
    about: "Socket of this machine's Docker daemon.",
    role: "worker"
  }),
  egressAllow: Setting.optional({
    name: "SLIPWAY_EGRESS_ALLOW",
    type: Type.parsed(
      "names with ports between commas, such as registry.npmjs.org:443",
      (value) => Result.isSuccess(AllowList.parse(value))
    ),
    about: "Destinations of isolated sandboxes beside their model, such as " +
      "registry.npmjs.org:443,pypi.org:443,files.pythonhosted.org:443. Without it, none.",
    role: "worker"
  }),
  mcpPrivate: Setting.optional({
    name: "SLIPWAY_MCP_PRIVATE",
    type: Type.parsed(
      "names with ports between commas, such as wiki.internal:8080",
      (value) => Result.isSuccess(AllowList.parse(value))
    ),
    about:
      "Destinations of MCP servers that may use http or have private addresses, such as wiki.internal:8080. Owners of grants may then " +
      "use them with agents. Without it, MCP servers need https and public addresses.",
    role: "all"
  })
}

export const load = Effect.map(Setting.values(settings), ({ dockerImages, egressAllow, mcpPrivate, toolchains, ...loaded }) => {
  const allowed: AllowList.AllowList = Result.getOrElse(AllowList.parse(egressAllow ?? ""), () => new Set())
  const privates: AllowList.AllowList = Result.getOrElse(AllowList.parse(mcpPrivate ?? ""), () => new Set())
  return { ...loaded, mcpPrivate: privates, dockerImages: dockerImages ?? [], egressAllow: allowed, toolchains: toolchains ?? [] }
})

/** Limits of isolated sandboxes. */
export const limits = {
  memoryBytes: Setting.withDefault({
    name: "SLIPWAY_SANDBOX_MEMORY_MIB",
    type: Type.mebibytes(64, 1_048_576),
    default: "4096",
    about: "Memory of an isolated sandbox, if the kernel limits it.",
    role: "worker"
  }),
  processes: Setting.withDefault({
    name: "SLIPWAY_SANDBOX_PROCESSES",
    type: Type.integer(32, 100_000),
    default: "1024",
    about: "Processes and threads of an isolated sandbox, if the kernel limits them.",
    role: "worker"
  }),
  cpus: Setting.withDefault({
    name: "SLIPWAY_SANDBOX_CPUS",
    type: Type.integer(1, 1024),
    default: "2",
    about: "Processors of an isolated sandbox, if the kernel limits them.",
    role: "worker"
  }),
  diskBytes: Setting.withDefault({
    name: "SLIPWAY_SANDBOX_DISK_MIB",
    type: Type.mebibytes(64, 100_000_000),
    default: "10240",
    about: "Disk of an isolated sandbox. The kernel refuses more, with existing sandboxes keeping their size; if it cannot, the disk " +
      "is measured, and programs over the limit are ended. See slipway doctor.",
    role: "worker"
  })
}

export const loadLimits = Setting.values(limits)
