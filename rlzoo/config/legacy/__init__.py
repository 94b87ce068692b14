"""Names and values of older packages: Stable Baselines, RL Baselines Zoo, old Gym and TensorFlow.

    sb2_options      tables: option of Stable Baselines -> its current name or value
    sb2_translation  RawConfig -> RawConfig, and keyword arguments of constructors
    class_paths      dotted paths of classes
    policy_keywords  `policy_kwargs`
    her_keys         arguments of HER that have no effect

Configurations pass through here once, before they are resolved; constructors once, at their start. Nothing
else in the package knows an old name. Each translation gives one warning that lists the current names.
"""
