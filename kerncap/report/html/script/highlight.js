// A line of code as spans: enough to tell comments, strings, words and numbers apart, for seven languages.
const WORDS = {
  python: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield",
  c: "alignas auto bool break case char class const constexpr continue default delete do double else enum extern false float for if inline int long namespace new nullptr operator private public return short signed sizeof static struct switch template this true typedef typename union unsigned using void volatile while __global__ __device__ __shared__ __host__ __restrict__ __launch_bounds__",
  mlir: "module func public attributes return scf arith tt ttg math cf llvm dense true false",
  llvm: "define declare ret br label call load store getelementptr phi icmp fcmp add sub mul fadd fmul fsub select tail void ptr align to and or xor shl lshr ashr trunc zext sext bitcast insertelement extractelement attributes",
  ptx: "",
  asm: "",
};
const RULES = {
  python: [["c", "#.*"], ["s", "[rbfu]{0,2}(?:\"\"\".*?(?:\"\"\"|$)|'''.*?(?:'''|$)|\"(?:[^\"\\\\]|\\\\.)*\"?|'(?:[^'\\\\]|\\\\.)*'?)"], ["f", "@[\\w.]+"]],
  c: [["c", "//.*|/\\*.*?(?:\\*/|$)"], ["s", "\"(?:[^\"\\\\]|\\\\.)*\"?"], ["f", "^\\s*#\\s*\\w+"]],
  mlir: [["c", "//.*"], ["s", "\"(?:[^\"\\\\]|\\\\.)*\"?"], ["m", "[%#!^@][\\w$.]+"], ["f", "(?:tt|ttg|arith|scf|math|amdg|nvgpu|ttng|cf|gpu|llvm|rocdl|nvvm)\\.[\\w.]+"]],
  llvm: [["c", ";.*"], ["s", "\"[^\"]*\"?"], ["m", "[%@!#][\\w.$-]+"]],
  ptx: [["c", "//.*"], ["s", "\"[^\"]*\"?"], ["m", "%[\\w.]+"], ["f", "^\\s*(?:@!?%\\w+\\s+)?[a-z][\\w]*(?:\\.[\\w:]+)*|\\.\\w+"]],
  asm: [["c", "//.*|;.*"], ["s", "\"[^\"]*\"?"], ["m", "[%$][\\w.]+|\\b[svar]\\d+\\b|\\b[sva]\\[\\d+:\\d+\\]"], ["f", "^\\s*[@\\w!%]*\\s*[a-z][\\w]*(?:\\.[\\w:]+)*|\\.\\w+"]],
};
const matchers = {};

function matcherOf(language) {
  if (!matchers[language] && RULES[language]) {
    const words = WORDS[language] ? `|(?<k>\\b(?:${WORDS[language].split(" ").join("|")})\\b)` : "";
    const rules = RULES[language].map(([kind, text]) => `(?<${kind}>${text})`).join("|");
    matchers[language] = new RegExp(`${rules}${words}|(?<n>\\b(?:0x[0-9a-fA-F]+|\\d[\\d_]*\\.?\\d*(?:[eE][+-]?\\d+)?)\\b)`, "g");
  }
  return matchers[language];
}

const LANGUAGE_OF = { ttir: "mlir", ttgir: "mlir", source: "mlir", llir: "llvm", ptx: "ptx", amdgcn: "asm" };
const MOST_TOKENS = 300, MOST_LETTERS = 800;

function highlighted(line, language) {
  const matcher = matcherOf(language);
  if (!matcher || line.length > MOST_LETTERS) return [line];
  const parts = [];
  let at = 0;
  for (const match of line.matchAll(matcher)) {
    if (!match[0] || parts.length > MOST_TOKENS) continue;
    if (match.index > at) parts.push(line.slice(at, match.index));
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    parts.push(el("span", { class: `t-${kind}` }, match[0]));
    at = match.index + match[0].length;
  }
  if (at < line.length) parts.push(line.slice(at));
  return parts;
}
