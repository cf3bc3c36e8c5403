/** The isolation of sandboxes and their limits. */
import * as AllowList from "@slipway/machine/egress/AllowList"
import { Effect, Result } from "effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  isolation: Setting.withDefault({
    name: "SLIPWAY_ISOLATION",
    type: Type.oneOf(["auto", "bubblewrap", "docker", "gvisor", "runner", "kubernetes", "none"]),
    default: "auto",
    about: "bubblewrap, the Docker daemon of this machine, or gVisor's runsc keeps agents in, or the service does not start. " +
      "runner: machines that SLIPWAY_RUNNER_MACHINES makes, here or elsewhere, one for each sandbox. " +
      "kubernetes (experimental): pods of a cluster, one for each sandbox (docs/operating/machines.md). " +
      "auto: bubblewrap where it can, else only the offline agent runs. " +
      "none lets agents with a model account run as this user, with nothing to keep them in. See slipway doctor.",
    role: "worker"
  }),
  runnerMachines: Setting.optional({
    name: "SLIPWAY_RUNNER_MACHINES",
    type: Type.file,
    about:
      "The program that makes the machines of sandboxes with SLIPWAY_ISOLATION=runner, and is called as docs/operating/machines.md says. " +
      "It runs as the service's user, with nothing of its environment but PATH, HOME, LANG and TMPDIR.",
    role: "worker"
  }),
  dockerImage: Setting.withDefault({
    name: "SLIPWAY_DOCKER_IMAGE",
    type: Type.text("the name of an image"),
    default: "node:24-bookworm",
    about: "The image that sandboxes run in with SLIPWAY_ISOLATION=docker. It needs glibc, sh, unshare and git. " +
      "It is pulled when it is not there.",
    role: "worker"
  }),
  dockerImages: Setting.optional({
    name: "SLIPWAY_DOCKER_IMAGES",
    type: Type.images,
    about: "Images that repositories may ask for in their devcontainer.json, with SLIPWAY_ISOLATION=docker, such as " +
      "golang:1.25-bookworm,python:3.13-bookworm@sha256:…. Each is like SLIPWAY_DOCKER_IMAGE, and is pulled when the service starts. " +
      "A repository that asks for another one gets SLIPWAY_DOCKER_IMAGE.",
    role: "worker"
  }),
  toolchains: Setting.optional({
    name: "SLIPWAY_TOOLCHAINS",
    type: Type.folders,
    about: "Folders with programs for repositories, as a version manager keeps them or unpacked by hand, such as " +
      "/opt/mise,/usr/local/go. Sandboxes see them read-only, and find their programs before others. Nothing secret may be in them.",
    role: "worker"
  }),
  dockerSocket: Setting.withDefault({
    name: "SLIPWAY_DOCKER_SOCKET",
    type: Type.text("a file"),
    default: "/var/run/docker.sock",
    about: "Where the Docker daemon of this machine listens.",
    role: "worker"
  }),
  egressAllow: Setting.optional({
    name: "SLIPWAY_EGRESS_ALLOW",
    type: Type.parsed(
      "names with ports between commas, such as registry.npmjs.org:443",
      (value) => Result.isSuccess(AllowList.parse(value))
    ),
    about: "What isolated sandboxes may reach beside their model, as name:port between commas, " +
      "such as registry.npmjs.org:443,pypi.org:443,files.pythonhosted.org:443. " +
      "Without it, nothing.",
    role: "worker"
  })
}

export const load = Effect.map(Setting.values(settings), ({ dockerImages, egressAllow, toolchains, ...loaded }) => {
  const allowed: AllowList.AllowList = Result.getOrElse(AllowList.parse(egressAllow ?? ""), () => new Set())
  return { ...loaded, dockerImages: dockerImages ?? [], egressAllow: allowed, toolchains: toolchains ?? [] }
})

/** Limits of isolated sandboxes. */
export const limits = {
  memoryBytes: Setting.withDefault({
    name: "SLIPWAY_SANDBOX_MEMORY_MIB",
    type: Type.mebibytes(64, 1_048_576),
    default: "4096",
    about: "Memory of an isolated sandbox, where the kernel limits it.",
    role: "worker"
  }),
  processes: Setting.withDefault({
    name: "SLIPWAY_SANDBOX_PROCESSES",
    type: Type.integer(32, 100_000),
    default: "1024",
    about: "Processes and threads of an isolated sandbox, where the kernel limits them.",
    role: "worker"
  }),
  cpus: Setting.withDefault({
    name: "SLIPWAY_SANDBOX_CPUS",
    type: Type.integer(1, 1024),
    default: "2",
    about: "Processors of an isolated sandbox, where the kernel limits them.",
    role: "worker"
  }),
  diskBytes: Setting.withDefault({
    name: "SLIPWAY_SANDBOX_DISK_MIB",
    type: Type.mebibytes(64, 100_000_000),
    default: "10240",
    about: "Disk that an isolated sandbox may take. Where the kernel keeps it, more is refused, and sandboxes that exist " +
      "keep what they have; elsewhere it is measured, and what runs is ended when it takes more. See slipway doctor.",
    role: "worker"
  })
}

export const loadLimits = Setting.values(limits)
