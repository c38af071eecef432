import tseslint from 'typescript-eslint';

const generated = ['dist/', 'docs/reference/', 'node_modules/', '.cache/'];
/** Projects of their own, which install their own packages. */
const projects = ['test/runtime/', 'examples/*/'];
/** TypeScript to the parser, another language to the rules. */
const assemblyScript = ['assembly/**/*.ts', 'bench/roofline/assembly/**/*.ts'];

/**
 * AssemblyScript's own names: a local one that hides them makes code mean something else. (Without abs, floor, max and min, which are good
 * names for values.)
 */
const builtins = [
  'bool f32 f64 i16 i32 i64 i8 isize u16 u32 u64 u8 usize v128 f32x4 f64x2 i16x8 i32x4 i64x2 i8x16 atomic memory',
  'ceil changetype clz copysign ctz isDefined isFinite isInfinity isNaN load nearest offsetof popcnt reinterpret rotl rotr select sizeof sqrt',
  'store trunc unchecked unreachable Infinity NaN ASC_FEATURE_RELAXED_SIMD ASC_FEATURE_THREADS',
].flatMap((names) => names.split(' '));

const listOfStatements = {
  selector: 'ExpressionStatement > SequenceExpression',
  message: 'Statements of their own, not a list with commas.',
};

/** Two arguments, so a file of the checkout: with one, or a base of http, it is a request's. */
const pathnameOfFile = {
  selector:
    'MemberExpression[property.name="pathname"] > NewExpression[callee.name="URL"][arguments.length=2][arguments.1.type!="Literal"]',
  message: 'The pathname of a file is no path where it has blanks, or on Windows: use fileURLToPath.',
};

export default tseslint.config(
  { ignores: [...generated, ...projects] },
  {
    rules: {
      // The formatter breaks "const a = 1, b = 2;" over lines with a hanging indent: as statements of their own they read better.
      'one-var': ['error', { initialized: 'never' }],
    },
  },
  {
    ignores: assemblyScript,
    extends: [tseslint.configs.recommended],
    rules: {
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/consistent-type-imports': 'error',
      'no-restricted-syntax': [
        'error',
        listOfStatements,
        pathnameOfFile,
        { selector: 'ExportDefaultDeclaration', message: 'No default exports.' },
        { selector: 'TSEnumDeclaration', message: 'No enums: use readonly objects or unions.' },
      ],
    },
  },
  { files: ['**/*.config.{js,ts}'], rules: { 'no-restricted-syntax': ['error', listOfStatements, pathnameOfFile] } },
  {
    files: assemblyScript,
    languageOptions: {
      parser: tseslint.parser,
      // Decorators stand on functions and variables too.
      parserOptions: { allowInvalidAST: true },
      globals: Object.fromEntries(builtins.map((name) => [name, 'readonly'])),
    },
    plugins: { '@typescript-eslint': tseslint.plugin },
    // Without types, and without what is wrong here: "===" is identity, not equality; a NaN is compared with itself.
    rules: {
      // All formats have the same methods with the same parameters, which not all of them need.
      '@typescript-eslint/no-unused-vars': ['error', { args: 'none', varsIgnorePattern: '^_' }],
      '@typescript-eslint/no-shadow': ['error', { builtinGlobals: true }],
      'no-cond-assign': 'error',
      'no-constant-binary-expression': 'error',
      'no-dupe-else-if': 'error',
      'no-duplicate-case': 'error',
      'no-duplicate-imports': 'error',
      'no-else-return': 'error',
      'no-empty': 'error',
      'no-fallthrough': 'error',
      'no-redeclare': 'error',
      'no-restricted-syntax': [
        'error',
        { selector: 'BinaryExpression[operator=/^[!=]==$/]', message: 'Identity of objects in AssemblyScript: write == or !=.' },
        { selector: 'ExportDefaultDeclaration', message: 'No default exports.' },
      ],
      'no-self-assign': 'error',
      'no-sequences': 'error',
      'no-unreachable': 'error',
      'no-unused-labels': 'error',
      'no-useless-return': 'error',
      'no-var': 'error',
      'prefer-const': 'error',
    },
  },
  {
    // Names stand once for all their rows and columns here; what the templates become is linted.
    files: ['assembly/templates/**/*.ts'],
    rules: { '@typescript-eslint/no-unused-vars': 'off', 'no-redeclare': 'off', 'prefer-const': 'off' },
  },
);
