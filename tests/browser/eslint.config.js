// The lint rules of the dashboard's own files.
import js from '@eslint/js';
import globals from 'globals';

export default [
  { ignores: ['**/vendor/**'] },
  js.configs.recommended,
  {
    files: ['**/*.js'],
    languageOptions: { ecmaVersion: 2023, sourceType: 'module', globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: true },
    rules: {
      eqeqeq: 'error',
      'no-eval': 'error',
      'no-implied-eval': 'error',
      'no-new-func': 'error',
      'no-var': 'error',
      'prefer-const': 'error',
      'no-console': 'error',
      'no-alert': 'error',
      'no-shadow': 'error',
      'no-unused-vars': ['error', { args: 'after-used' }],
      'no-restricted-properties': ['error',
        { property: 'innerHTML', message: 'Templates escape text; HTML in a text is an attack.' },
        { property: 'outerHTML', message: 'Templates escape text; HTML in a text is an attack.' }],
      'no-restricted-syntax': ['error', { selector: 'Literal[value=/dangerouslySetInnerHTML/]', message: 'Templates escape text.' }],
    },
  },
];
