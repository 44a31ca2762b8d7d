// Lint rules for the whole tree. STYLE: typed linting, no ambient time or chance, imports point downwards
// (the layer rule itself is scripts/check-layers.mjs, because it needs the folder order, not an AST).
import tseslint from 'typescript-eslint';

const AMBIENT = 'Time and chance come from base/clock.ts, so that decisions can be tested.';

export default tseslint.config(
  { ignores: ['dist/**', 'node_modules/**', 'native/build/**', 'coverage/**'] },
  ...tseslint.configs.strictTypeChecked.map((config) => ({ ...config, files: ['**/*.ts'] })),
  {
    files: ['**/*.ts'],
    languageOptions: { parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/consistent-type-exports': 'error',
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      // noPropertyAccessFromIndexSignature asks for the opposite.
      '@typescript-eslint/dot-notation': 'off',
    },
  },
  {
    files: ['src/**/*.ts'],
    ignores: ['src/base/clock.ts'],
    rules: {
      'no-restricted-globals': [
        'error',
        { name: 'setTimeout', message: AMBIENT },
        { name: 'setInterval', message: AMBIENT },
        { name: 'performance', message: AMBIENT },
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: AMBIENT },
        { object: 'Math', property: 'random', message: AMBIENT },
        { object: 'process', property: 'hrtime', message: AMBIENT },
        {
          object: 'process',
          property: 'exit',
          message: 'Only agent/main.ts, agent/dev.ts and cli/main.ts end the process.',
        },
        {
          object: 'AbortSignal',
          property: 'any',
          message: 'Keeps every dependant on Node 20: use base/abort.ts.',
        },
      ],
    },
  },
  {
    // The two that own a process. Time and chance stay out of reach for them as for all.
    files: ['src/agent/main.ts', 'src/agent/dev.ts', 'src/cli/main.ts'],
    rules: {
      'no-restricted-properties': ['error', { object: 'Date', property: 'now', message: AMBIENT }],
    },
  },
  {
    files: ['test/**/*.ts'],
    ignores: ['test/helpers/properties.ts'],
    rules: {
      'no-restricted-imports': [
        'error',
        { name: 'fast-check', message: 'test/helpers/properties.ts has it, with a seed.' },
      ],
    },
  },
  {
    files: ['test/**/*.ts', 'bench/**/*.ts'],
    rules: {
      // node:test returns promises from describe/it that the runner itself awaits.
      '@typescript-eslint/no-floating-promises': [
        'error',
        {
          allowForKnownSafeCalls: [
            { from: 'package', name: ['it', 'describe', 'test', 'suite'], package: 'node:test' },
          ],
        },
      ],
    },
  },
);
