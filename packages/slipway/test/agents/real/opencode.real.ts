import { suite } from "./RealAgentSuite.ts"

// It looks for plugins from where it works upwards, whatever it is told about the project's configuration (1.18.33).
suite("opencode", { believes: ["opencode-plugin", "opencode-plugins"] })
